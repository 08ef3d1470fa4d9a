"""Several runs as one pool: recall of the pool, what each run adds, and new lists made of old verdicts."""
