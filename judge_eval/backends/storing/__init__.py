"""Where completions are kept."""
