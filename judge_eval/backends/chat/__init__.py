"""Asking a chat server."""
