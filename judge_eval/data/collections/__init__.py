"""Datasets that are several files."""
