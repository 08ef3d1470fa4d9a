"""Servers that are asked over HTTP: the client, what it sends, how replies and failures are read."""
