"""Statistics of scores and of agreement, on NumPy alone."""
