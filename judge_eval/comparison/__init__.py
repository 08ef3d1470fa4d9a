"""The same traces in two runs or more."""
