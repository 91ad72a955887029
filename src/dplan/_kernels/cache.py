"""The cache of compiled kernels, so that a machine compiles them once and not in every process.

The first usable folder of: NUMBA_CACHE_DIR; the package's folder, if it is writable, or if it already contains kernels
(as in a container image); the user's cache folder; a private temporary folder. If there is none, every process compiles
the kernels again and logs a warning.
"""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator
from platformdirs import user_cache_path

logger = logging.getLogger("dplan")
_config: Any = config

PACKAGE = Path(__file__).parents[1]
ADVICE = "Set NUMBA_CACHE_DIR to a writable folder, or run `dplan doctor --warm-up` when building the image."


class Kind(Enum):
    """The kind of cache folder."""

    CHOSEN = "the folder in NUMBA_CACHE_DIR"
    PACKAGE = "the package's folder"
    READ_ONLY = "the package's folder, read-only"
    USER = "the user's cache folder"
    TEMPORARY = "a temporary folder"
    NONE = "no cache"


WRITABLE = (Kind.CHOSEN, Kind.PACKAGE, Kind.USER, Kind.TEMPORARY)


class Place(NamedTuple):
    """A cache folder; each module has its own subfolder."""

    kind: Kind
    folder: Path | None

    def n_kernels(self) -> int:
        """Return the number of cached kernels."""
        return len(list(self.folder.rglob("*.nbi"))) if self.folder is not None else 0


@cache
def place() -> Place:
    """Return the cache of this process; the first call logs a warning if it is not permanent."""
    found = _find(_config.CACHE_DIR, PACKAGE, user_cache_path("dplan"))
    if found.kind is Kind.TEMPORARY:
        logger.warning(
            "Compiled kernels are cached in %s, because neither the package's folder nor the user's cache folder "
            "is writable. They are compiled again whenever that folder is emptied. %s",
            found.folder,
            ADVICE,
        )
    if found.kind is Kind.NONE:
        logger.warning(
            "Compiled kernels cannot be cached, because no folder is writable. Every process compiles them again, "
            "which takes several seconds. %s",
            ADVICE,
        )
    return found


def _find(chosen: str, package: Path, user: Path) -> Place:
    if chosen and _writable(Path(chosen)):
        return Place(Kind.CHOSEN, Path(chosen))
    beside = package / "_kernels" / "__pycache__"
    if _writable(beside):
        return Place(Kind.PACKAGE, package)
    if any(beside.glob("*.nbi")):
        return Place(Kind.READ_ONLY, package)
    kernels = user / "kernels"
    if kernels.is_absolute() and _writable(kernels):  # it is relative if there is no home folder
        return Place(Kind.USER, kernels)
    temporary = _private_temporary_folder()
    return Place(Kind.NONE if temporary is None else Kind.TEMPORARY, temporary)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _private_temporary_folder() -> Path | None:
    """Return a folder that only this user can write to, because cached kernels are executed."""
    owner = os.getuid() if hasattr(os, "getuid") else None
    try:
        folder = Path(tempfile.gettempdir()) / f"dplan-kernels-{owner if owner is not None else 'own'}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    private = owner is None or (status.st_uid == owner and status.st_mode & 0o077 == 0)
    return folder if private and not folder.is_symlink() and _writable(folder) else None


class _ReadOnlyLocator(InTreeCacheLocator):
    """Find kernels in the package's folder without requiring write access."""

    def ensure_cache_path(self) -> None:
        pass


class _ReadOnlyImplementation(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_ReadOnlyLocator]  # noqa: RUF012 - numba's own form


class _ReadOnlyCache(FunctionCache):
    _impl_class = _ReadOnlyImplementation

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store nothing; missing kernels are compiled again by the next process."""


def with_cache(compile_later: Callable[[bool], Any]) -> Any:
    """Make a kernel with ``compile_later(cached)``, and store its machine code in the cache of this process."""
    kind, folder = place()
    if kind in (Kind.READ_ONLY, Kind.NONE):
        kernel = compile_later(False)
        if kind is Kind.READ_ONLY:
            kernel._cache = _ReadOnlyCache(kernel.py_func)  # type: ignore[no-untyped-call]
        return kernel
    with _numba_cache_dir("" if kind is Kind.PACKAGE else str(folder)):
        kernel = compile_later(True)
    kernel._cache.save_overload = _if_possible(kernel._cache.save_overload)
    return kernel


def _if_possible(save: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return a function that stores a kernel, or logs why it cannot: a full disk does not stop the work."""

    def save_or_warn(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except OSError as error:
            logger.warning("A compiled kernel could not be cached and will be compiled again: %s", error)

    return save_or_warn


def kept_in(kernel: Any) -> Path | None:
    """Return the folder that a kernel is stored in; None if it is not stored."""
    return Path(kernel._cache.cache_path) if place().kind in WRITABLE else None


def is_cached(kernel: Any) -> bool:
    """Return whether a version of a kernel is in the cache, without loading it."""
    return kernel._cache.cache_path is None or bool(kernel._cache._cache_file._load_index())


@contextmanager
def _numba_cache_dir(folder: str) -> Iterator[None]:
    # Numba reads the setting when a kernel is made; other packages in this process keep theirs.
    before = _config.CACHE_DIR
    _config.CACHE_DIR = folder
    try:
        yield
    finally:
        _config.CACHE_DIR = before
