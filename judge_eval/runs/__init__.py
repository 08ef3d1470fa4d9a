"""Runs: what was judged, how, and what came of it."""
