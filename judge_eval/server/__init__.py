"""The REST API and the pages over a folder of runs (extra: `server`)."""
