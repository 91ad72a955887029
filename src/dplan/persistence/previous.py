"""The file that was replaced last, kept beside its successor, so that one step can be undone."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dplan.persistence.atomic import atomic_write, exchanged, flush_name

__all__ = ["exchange", "previous", "replace_keeping"]


def previous(path: str | Path) -> Path:
    """Return where the file that `path` replaced is kept.

    Examples
    --------
    >>> previous("/models/fraud.dplan").name
    'fraud.dplan.previous'
    """
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.previous")


def replace_keeping(path: str | Path, content: bytes) -> None:
    """Replace a file atomically, and keep the old one as `previous`.

    The old file is kept as a hard link where that is possible, so it takes no time and no space to keep it. If the
    process is killed, `path` is the old or the new file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.txt"
    ...     _ = path.write_text("old")
    ...     replace_keeping(path, b"new")
    ...     path.read_text(), previous(path).read_text()
    ('new', 'old')
    """
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
        # Only now, when nothing but the last step can fail any more: it also drops the file that was kept before.
        with _copy(Path(os.path.realpath(path))) as old:
            os.replace(old, previous(path))


def exchange(path: str | Path) -> None:
    """Exchange a file and the one that it replaced; `path` is one of the two at every moment.

    On Linux both are exchanged at once. Elsewhere, if the process is killed, what `path` was may be left under the name
    of a hidden temporary file.
    """
    real = Path(os.path.realpath(path))
    if not exchanged(real, previous(real)):
        with _copy(real) as current:
            os.replace(previous(real), real)
            os.replace(current, previous(real))
    flush_name(real)


@contextmanager
def _copy(path: Path) -> Iterator[Path]:
    """Yield another name for a file or, if the file system has no hard links, a copy; it is removed if it is left."""
    other = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}.tmp{path.suffix}")
    try:
        try:
            os.link(path, other)
        except OSError:
            shutil.copy2(path, other)
        yield other
    finally:
        # Renaming one name of a file to another name of the same file does nothing.
        other.unlink(missing_ok=True)
