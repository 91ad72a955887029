"""Files and folders that are there whole or not at all."""

import ctypes
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replace_folder", "written_whole"]


@contextmanager
def written_whole(path: str | Path, *, scratch: Path | None = None) -> Iterator[Path]:
    """Give a temporary file to write to; at the end it takes the place of `path`.

    A file that is replaced keeps its mode, and a symbolic link keeps pointing to it. If the block fails, or Ctrl-C
    interrupts it, the temporary file is removed and `path` stays as it was. If the process is killed, `path` is the old
    file or the new one; a hidden temporary file may be left behind.

    Parameters
    ----------
    path : path
        The file to write.
    scratch : path, optional
        Folder for the temporary file, on the same file system; default the folder of `path`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder) / "notes.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "notes.txt").read_text(), len(list(Path(folder).iterdir()))
    ('whole', 1)
    """
    path = Path(os.path.realpath(path))
    # The suffix stays last: some writers choose their format by it.
    temporary = (scratch or path.parent) / f".{path.stem}.{uuid.uuid4().hex[:12]}.tmp{path.suffix}"
    try:
        _create(temporary, path)
        yield temporary
        _to_disk(temporary)
        os.replace(temporary, path)
        _to_disk(path.parent)  # the new name is in the folder, so the folder has to reach the disk too
    finally:
        temporary.unlink(missing_ok=True)


def replace_folder(new: Path, target: Path) -> None:
    """Put the folder `new` in the place of `target`, whose old content is deleted.

    On Linux the two are exchanged in one step, so `target` is always the old folder or the new one. Elsewhere it is
    missing for a moment.
    """
    target = Path(os.path.realpath(target))
    for path in (*new.iterdir(), new):
        _to_disk(path)
    if not target.exists():
        os.rename(new, target)
    else:
        new.chmod(stat.S_IMODE(target.stat().st_mode))
        if not _exchanged(new, target):
            old = new.with_name(new.name + ".old")
            os.rename(target, old)
            os.rename(new, target)
            new = old
        shutil.rmtree(new)
    _to_disk(target.parent)


def _create(temporary: Path, path: Path) -> None:
    """Create an empty file with the mode of the file that it will replace, or that of any new file."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        return
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    temporary.chmod(mode)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step, if the system can."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    at_working_directory, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return exchange is not None and not exchange(
        at_working_directory, os.fsencode(one), at_working_directory, os.fsencode(other), swap
    )


def _to_disk(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
