"""The cache: completions that were paid for, on disk or in PostgreSQL."""
