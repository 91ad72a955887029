"""Where `verbose` goes: to the log or, if nobody set one up, to standard output."""

import logging

logger = logging.getLogger("dplan")


def report(line: str) -> None:
    """Log a line, or print it if the logger has no handler: the user asked for output."""
    if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
        logger.info(line)
    else:
        print(line, flush=True)  # noqa: T201
