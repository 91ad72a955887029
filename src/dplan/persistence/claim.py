"""Make sure that each output has only one writer and is not one of its own inputs."""

import errno
import os
import platform
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_inputs", "check_new", "claimed"]

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # some network file systems


@contextmanager
def claimed(
    target: str | Path, inputs: Iterable[str | Path] = (), *, folder: bool = False, overwrite: bool = True
) -> Iterator[Path]:
    """Claim a file or folder for writing, before any work is done; other runs that try to claim it meanwhile fail.

    The claim is a lock that the system releases when the process ends for any reason, so it never goes stale.

    Parameters
    ----------
    target : path
        The file or folder to write. Symbolic links are followed.
    inputs : iterable of path
        Files and folders that are read. None of them may be the target, contain it or be inside it.
    folder : bool, default=False
        Whether the target is a folder.
    overwrite : bool, default=True
        Whether the target may exist already.

    Yields
    ------
    pathlib.Path
        The target, with symbolic links followed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with claimed(Path(folder) / "a.csv"):
    ...         with claimed(Path(folder) / "a.csv"):
    ...             pass
    Traceback (most recent call last):
    BlockingIOError: another run is writing to .../a.csv: process ... on ..., since ...
    """
    check_inputs(Path(target), inputs)
    real = Path(os.path.realpath(target))
    _check_writable(real, folder)
    lock = real.with_name(f".{real.name}.lock")
    descriptor = _lock(lock, target)
    try:
        check_new(Path(target), overwrite)
        yield real
    finally:
        with suppress(OSError):  # its folder was deleted, or Windows does not delete open files
            lock.unlink()
        os.close(descriptor)


def check_new(target: Path, overwrite: bool) -> None:
    """Raise if the target exists and must not be replaced."""
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} already exists; choose another output, or replace it (--overwrite)")


def check_inputs(target: Path, inputs: Iterable[str | Path]) -> None:
    """Raise if the target is one of the inputs, is inside one or contains one."""
    for given in map(Path, inputs):
        if _inside(target, given) and _inside(given, target):
            raise ValueError(f"{target} is also an input and would be overwritten; choose another output")
        if _inside(target, given):
            raise ValueError(f"{target} is inside the input folder {given}; choose an output outside of it")
        if _inside(given, target):
            raise ValueError(f"the input {given} is inside the output folder {target}; choose another output")


def _inside(path: Path, other: Path) -> bool:
    """Return whether a path is another one or inside it, after following links."""
    real = Path(os.path.realpath(path))
    return other.exists() and any(
        place.exists() and os.path.samefile(place, other) for place in (real, *real.parents)
    )


def _check_writable(target: Path, folder: bool) -> None:
    parent = target.parent
    if not parent.is_dir():
        raise FileNotFoundError(f"cannot write {target.name}: the folder {parent} does not exist")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"no permission to write to the folder {parent}")
    if not target.exists():
        return
    if folder != target.is_dir():
        raise OSError(f"{target} is {'a file, not a folder' if folder else 'a folder, not a file'}")
    if not folder and not stat.S_ISREG(target.stat().st_mode):
        raise OSError(f"{target} is not a regular file and cannot be replaced")
    if not os.access(target, os.W_OK):
        raise PermissionError(f"{target} is read-only")


def _lock(lock: Path, target: str | Path) -> int:
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        if fcntl is None:
            _lock_on_windows(descriptor, target)
            return descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace")
            os.close(descriptor)
            raise BlockingIOError(
                f"another run is writing to {target}: {holder or 'it has just started'}"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                os.close(descriptor)
                raise
        # The previous holder removes the file when it is done, perhaps after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                break
        os.close(descriptor)
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}, since {since}".encode(), 0)
    return descriptor


def _lock_on_windows(descriptor: int, target: str | Path) -> None:
    import msvcrt

    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        os.close(descriptor)
        raise BlockingIOError(f"another run is writing to {target}") from None
