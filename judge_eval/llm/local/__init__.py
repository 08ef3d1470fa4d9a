"""Models that judge in this process: what a folder, an archive or a package holds."""
