"""Wrappers: backends around a backend."""
