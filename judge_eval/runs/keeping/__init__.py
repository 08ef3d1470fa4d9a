"""Where runs are kept: found, mirrored, moved."""
