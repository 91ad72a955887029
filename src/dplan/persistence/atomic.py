"""Atomic replacement of files and folders, and whether a file was replaced."""

import ctypes
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_write", "exchanged", "file_state", "flush_name", "replace_folder", "store"]


@contextmanager
def atomic_write(path: str | Path, *, scratch: Path | None = None) -> Iterator[Path]:
    """Yield a temporary file to write to, which then replaces `path`.

    A file that is replaced keeps its mode, and symbolic links are followed. If the block fails or is interrupted with
    Ctrl-C, the temporary file is removed and `path` is unchanged. If the process is killed, `path` is the old or the
    new file, and a hidden temporary file may be left behind.

    Parameters
    ----------
    path : path
        The file to write.
    scratch : path, optional
        Folder for the temporary file, on the same file system. By default the folder of `path`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "notes.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "notes.txt").read_text(), len(list(Path(folder).iterdir()))
    ('whole', 1)
    """
    path = Path(os.path.realpath(path))
    # Keep the suffix, because some writers choose the format by it.
    temporary = (scratch or path.parent) / f".{path.stem}.{uuid.uuid4().hex[:12]}.tmp{path.suffix}"
    try:
        _create(temporary, path)
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        flush_name(path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # as on a full disk
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def store(path: str | Path, content: str | bytes) -> None:
    """Write a whole file atomically, text in UTF-8; an existing one is replaced."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def replace_folder(new: Path, target: Path) -> None:
    """Replace the folder `target` by `new`, and delete the old one.

    On Linux the two are exchanged atomically, so `target` is always the old or the new folder. Elsewhere it is missing
    for a moment.
    """
    target = Path(os.path.realpath(target))
    for path in (*new.iterdir(), new):
        _flush(path)
    if not target.exists():
        os.rename(new, target)
    else:
        new.chmod(stat.S_IMODE(target.stat().st_mode))
        if not exchanged(new, target):
            old = new.with_name(new.name + ".old")
            os.rename(target, old)
            os.rename(new, target)
            new = old
        shutil.rmtree(new)
    flush_name(target)


def file_state(path: Path) -> tuple[int, ...] | None:
    """Return numbers that differ if a file was changed or replaced; None if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.txt"
    ...     _ = path.write_text("old")
    ...     before = file_state(path)
    ...     with atomic_write(path) as temporary:
    ...         _ = temporary.write_text("new")
    ...     file_state(path) == before, file_state(path.with_name("no such file"))
    (False, None)
    """
    try:
        found = path.stat()
    except OSError:
        return None
    # Unlike the modification time, the time of the last status change cannot be set.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _create(temporary: Path, path: Path) -> None:
    """Create an empty file with the mode of the file that it will replace, or the default mode."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        return
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    temporary.chmod(mode)


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two paths atomically; return False if the system cannot."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    at_working_directory, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return exchange is not None and not exchange(
        at_working_directory, os.fsencode(one), at_working_directory, os.fsencode(other), swap
    )


def flush_name(path: Path) -> None:
    """Write to disk that a path has new content; if that fails, say that it has it nevertheless."""
    try:
        _flush(path.parent)  # which contains the name
    except OSError as error:
        raise OSError(
            f"{path} was written, but its folder could not be synced to disk ({error.strerror or error}); after a "
            "power failure it may be missing or the old one"
        ) from error


def _flush(path: Path) -> None:
    """Write a file, or the names in a folder, to disk."""
    if os.name != "posix" and path.is_dir():
        return  # Windows cannot open folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
