"""Metrics over the claims of a reference that chunks support."""
