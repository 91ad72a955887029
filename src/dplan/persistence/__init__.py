"""Model files, atomic writes, and claims on output files."""
