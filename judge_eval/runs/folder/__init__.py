"""A run on disk: its records and its files."""
