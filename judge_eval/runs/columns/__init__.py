"""A run as packed columns."""
