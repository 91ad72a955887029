"""Processes that compile into one cache at the same time: one of them compiles a kernel, and the others wait for it.

Without this, two commands that start together would compile everything twice. They could also give two versions of a
kernel the same file name in the cache, because numba reads and writes its index without a lock.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from dplan._kernels.compiling import compiling

try:
    import fcntl
except ModuleNotFoundError:  # on Windows, processes do not wait for each other
    fcntl = None  # type: ignore[assignment]

POSSIBLE = fcntl is not None

_FILE = "dplan-kernels.lock"
_held: set[Any] = set()


@cache
def _lock_file(folder: Path, _process: int) -> int | None:
    """Open the file whose bytes are locked, one for each kernel; it stays open, because closing it ends all locks."""
    try:
        return os.open(folder / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # read-only or full: then nothing can be shared
        return None


@contextmanager
def alone(folder: Path, kernel: str) -> Iterator[None]:
    """Run the block while no other process compiles this kernel into the same folder.

    A process that ends, however it ends, no longer holds a lock. Kernels call each other without cycles, so processes
    cannot wait for each other in a circle.
    """
    place = zlib.crc32(kernel.encode())
    file = None if fcntl is None or kernel in _held else _lock_file(folder, os.getpid())
    if file is None or not _locked(file, place):
        yield
        return
    _held.add(kernel)
    try:
        yield
    finally:
        _held.discard(kernel)
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _locked(file: int, place: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        return True
    except BlockingIOError:
        pass
    except OSError:  # a file system without locks
        return False
    compiling.begin()  # somebody else does it for us
    try:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
    except OSError:
        return False
    finally:
        compiling.end()
    return True
