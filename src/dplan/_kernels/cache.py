"""Where compiled kernels are kept, so that a machine compiles them once and not in every process.

In order: where NUMBA_CACHE_DIR says; beside the package, if that is writable, or if it is not but kernels were put
there before (as in a container image); the user's cache folder; a private folder for temporary files. If there is no
such place, kernels are compiled in every process, and a line says so.
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
ADVICE = (
    "Set NUMBA_CACHE_DIR to a folder that can be written to, or run  dplan doctor --warm-up  "
    "when the image is built."
)


class Kind(Enum):
    """What a place for kernels is."""

    CHOSEN = "the folder in NUMBA_CACHE_DIR"
    PACKAGE = "beside the package"
    READ_ONLY = "beside the package, read-only"
    USER = "the user's cache folder"
    TEMPORARY = "a folder for temporary files"
    NONE = "nowhere"


class Place(NamedTuple):
    """A place for kernels; in `folder`, each module has a subfolder of its own."""

    kind: Kind
    folder: Path | None

    def n_kernels(self) -> int:
        """Return how many kernels are there."""
        return len(list(self.folder.rglob("*.nbi"))) if self.folder is not None else 0


@cache
def place() -> Place:
    """Return where this process keeps its kernels; the first call says so where it is not as it should be."""
    found = _find(_config.CACHE_DIR, PACKAGE, user_cache_path("dplan"))
    if found.kind is Kind.TEMPORARY:
        logger.warning(
            "Compiled kernels are cached in %s, because neither the package's folder nor the user's cache folder "
            "can be written to. They are compiled again whenever that folder is emptied. %s",
            found.folder,
            ADVICE,
        )
    if found.kind is Kind.NONE:
        logger.warning(
            "Compiled kernels cannot be cached: no folder can be written to. Every process compiles them again, "
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
    if kernels.is_absolute() and _writable(kernels):  # without a home, it is relative
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
    """Return a folder that only this user can write to: whoever writes to it decides what code is run."""
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
    """Finds kernels beside the package without asking to write there."""

    def ensure_cache_path(self) -> None:
        pass


class _ReadOnlyImplementation(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_ReadOnlyLocator]  # noqa: RUF012 - numba's own form


class _ReadOnlyCache(FunctionCache):
    _impl_class = _ReadOnlyImplementation

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep nothing: what was not put there before is compiled again by the next process."""


def with_cache(compile_later: Callable[[bool], Any]) -> Any:
    """Make a kernel by ``compile_later(cached)``, and let it keep its machine code in the process's place."""
    kind, folder = place()
    if kind in (Kind.READ_ONLY, Kind.NONE):
        kernel = compile_later(False)
        if kind is Kind.READ_ONLY:
            kernel._cache = _ReadOnlyCache(kernel.py_func)  # type: ignore[no-untyped-call]
        return kernel
    with _numba_cache_dir("" if kind is Kind.PACKAGE else str(folder)):
        return compile_later(True)


@contextmanager
def _numba_cache_dir(folder: str) -> Iterator[None]:
    # Numba reads it when a kernel is made; other packages in this process keep their own setting.
    before = _config.CACHE_DIR
    _config.CACHE_DIR = folder
    try:
        yield
    finally:
        _config.CACHE_DIR = before
