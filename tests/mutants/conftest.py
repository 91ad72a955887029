"""Only `make mutants` needs cosmic-ray."""

collect_ignore = ["changes.py", "__main__.py"]
