"""Shapes of one record, whatever tool wrote it."""
