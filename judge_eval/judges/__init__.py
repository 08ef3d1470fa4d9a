"""Judges: plans without I/O that turn a trace into requests and replies into a judgment."""
