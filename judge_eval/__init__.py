"""Judge retrieved chunks with an LLM and turn the verdicts into ranking metrics that can be trusted."""
