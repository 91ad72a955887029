"""Make sure that each output has only one writer, and is neither an input nor another output of its own run."""

import errno
import os
import platform
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_files", "check_new", "claimed", "lock_file"]

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # some network file systems


@contextmanager
def claimed(
    target: str | Path,
    inputs: Iterable[str | Path] = (),
    *,
    beside: Iterable[str | Path] = (),
    folder: bool = False,
    overwrite: bool = True,
) -> Iterator[Path]:
    """Claim a file or folder for writing, before any work is done; other runs that try to claim it meanwhile fail.

    The claim is a lock that the system releases when the process ends for any reason, so it never goes stale.

    Parameters
    ----------
    target : path
        The file or folder to write. Symbolic links are followed.
    inputs : iterable of path
        Files and folders that are read. None of them may be the target, contain it or be inside it.
    beside : iterable of path
        Further files that are written, which are claimed too.
    folder : bool, default=False
        Whether the target is a folder.
    overwrite : bool, default=True
        Whether the target and the further files may exist already.

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
    outputs = [Path(target), *map(Path, beside)]
    check_files(inputs, outputs)
    with ExitStack() as held:
        for output in outputs:
            held.enter_context(_locked(output, folder and output is outputs[0]))
        for output in outputs:
            check_new(output, overwrite)
        yield Path(os.path.realpath(target))


@contextmanager
def _locked(target: Path, folder: bool) -> Iterator[None]:
    real = Path(os.path.realpath(target))
    _check_writable(real, folder)
    lock = real.with_name(f".{real.name}.lock")
    descriptor = _lock(lock, target)
    try:
        yield
    finally:
        with suppress(OSError):  # its folder was deleted, or Windows does not delete open files
            lock.unlink()
        os.close(descriptor)


def check_new(target: Path, overwrite: bool) -> None:
    """Raise if the target exists and must not be replaced."""
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} already exists; choose another output, or replace it (--overwrite)")


def check_files(inputs: Iterable[str | Path], outputs: Iterable[str | Path]) -> None:
    """Raise if an output of a run is one of its inputs or another output, is inside one or contains one.

    Examples
    --------
    >>> check_files(["t.csv"], ["scored.csv", "scored.errors.csv"])
    >>> check_files(["scored.errors.csv"], ["scored.csv", "scored.errors.csv"])
    Traceback (most recent call last):
    ValueError: scored.errors.csv is also an input and would be overwritten; choose another output
    """
    read, written = [*map(Path, inputs)], [*map(Path, outputs)]
    for i, output in enumerate(written):
        for given in read:
            if _inside(output, given) and _inside(given, output):
                raise ValueError(f"{output} is also an input and would be overwritten; choose another output")
            if _inside(output, given):
                raise ValueError(
                    f"{output} is inside the input folder {given}; choose an output outside of it"
                )
            if _inside(given, output):
                raise ValueError(
                    f"the input {given} is inside the output folder {output}; choose another output"
                )
        if any(_inside(output, other) or _inside(other, output) for other in written[:i]):
            raise ValueError(f"{output} cannot be two outputs; choose another one")


def _inside(path: Path, other: Path) -> bool:
    """Return whether a path is another one or inside it, after following links."""
    real, end = Path(os.path.realpath(path)), Path(os.path.realpath(other))
    places = (real, *real.parents)
    return end in places or (
        end.exists() and any(place.exists() and os.path.samefile(place, end) for place in places)
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
        try:
            lock_file(descriptor, target)
        except OSError:
            os.close(descriptor)
            raise
        if fcntl is None:
            return descriptor
        # The previous holder removes the file when it is done, perhaps after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                break
        os.close(descriptor)
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    with suppress(OSError):  # who holds it is good to know, but the lock works on a full disk too
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}, since {since}".encode(), 0)
    return descriptor


def lock_file(descriptor: int, target: str | Path) -> None:
    """Lock an open file until it is closed; raise BlockingIOError, with its text, if another process has locked it."""
    if fcntl is None:
        _lock_on_windows(descriptor, target)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 1000, 0).decode(errors="replace")
        raise BlockingIOError(
            f"another run is writing to {target}: {holder or 'it has just started'}"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise


def _lock_on_windows(descriptor: int, target: str | Path) -> None:
    import msvcrt

    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        raise BlockingIOError(f"another run is writing to {target}") from None
