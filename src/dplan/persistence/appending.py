"""Files that lines are only ever appended to, each on disk before it counts, with one writer at a time.

A line is written in one piece and synced to disk, so a crash can only truncate the last line; the next writer removes
such a line. If a write fails, as on a full disk, the file is cut back to the whole lines before it.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from dplan.persistence.claim import claimed, lock_file

__all__ = ["AppendedFile", "whole_lines"]


def whole_lines(text: bytes) -> bytes:
    """Return the text without a truncated last line."""
    return text[: text.rfind(b"\n") + 1]


class AppendedFile:
    r"""A file open for appending, claimed until it is closed.

    Parameters
    ----------
    path : path
        The file; it is created if it does not exist.
    whole : callable
        Returns the part of the text that a crash has not truncated; the rest is removed. If it raises an error, as
        for a file of another kind, the file is left as it is.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    content : bytes
        What was whole when it was opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.jsonl"
    ...     _ = path.write_bytes(b'{"n": 1}\n{"n"')  # a crash truncated the last line
    ...     file = AppendedFile(path)
    ...     file.append(b'{"n": 2}\n')
    ...     file.close()
    ...     path.read_bytes()
    b'{"n": 1}\n{"n": 2}\n'
    """

    def __init__(self, path: str | Path, whole: Callable[[bytes], bytes] = whole_lines) -> None:
        self.path = Path(path)
        with contextlib.ExitStack() as undo:
            undo.enter_context(claimed(self.path))
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            undo.callback(os.close, self._file)
            lock_file(self._file, self.path)  # which may have another name: the claim is about names
            text = self.path.read_bytes()
            self.content = whole(text)
            if len(self.content) < len(text):
                os.ftruncate(self._file, len(self.content))
            self._closing = undo.pop_all()

    def append(self, lines: bytes) -> None:
        """Add lines; when this returns, they are on disk, and when it raises OSError, none of them is."""
        size = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(lines):
                written += os.write(self._file, lines[written:])
            os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)  # this works even on a full disk
            raise

    def close(self) -> None:
        """Close the file and release the claim."""
        self._closing.close()
