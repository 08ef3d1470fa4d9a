"""Answers without a network, the same way every time."""
