"""Cassettes: answers recorded and replayed."""
