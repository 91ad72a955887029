"""Model files, files that are replaced atomically or only appended to, and claims on output files."""
