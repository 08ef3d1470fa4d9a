"""Backends: whoever completes requests, and the wrappers around them."""
