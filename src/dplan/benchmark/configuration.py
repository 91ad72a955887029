"""What the figures of a cell depend on beside the cell itself: the data's contents, versions and our own code.

A folder never mixes configurations: a runner refuses to add cells to a folder whose cells were made otherwise.
"""

import ast
import hashlib
import os
import platform
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl

from dplan._version import __version__
from dplan.benchmark.cells import create
from dplan.datasets import Dataset

__all__ = ["code_fingerprint", "data_fingerprint", "differences", "machine", "versions"]

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "polars")
# What every cell runs, whatever its method.
_FOLDERS = ("data",)
_FILES = ("benchmark/cells.py", "benchmark/metrics.py")


@cache
def versions() -> dict[str, str]:
    """Give the versions of every library that takes part in a cell, and our own.

    Examples
    --------
    >>> sorted(versions())
    ['dplan', 'numba', 'numpy', 'polars', 'python', 'scikit-learn', 'scipy']
    """
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"dplan": __version__, "python": platform.python_version(), **libraries}


@cache
def code_fingerprint(method: str) -> str:
    """Give a fingerprint of the code that a method's cells run; comments and docstrings do not count.

    That is the module of its detector with every module of ours that it imports, the data package, and what makes and
    measures a cell. So a new detector leaves the cells of all others as good as they were.

    Examples
    --------
    >>> len(code_fingerprint("DPLAN")), code_fingerprint("DPLAN") == code_fingerprint("DevNet")
    (12, False)
    """
    root = Path(str(files("dplan")))
    sources = {root / name for name in _FILES}
    for folder in _FOLDERS:
        sources |= set((root / folder).rglob("*.py"))
    waiting = [_source(root, type(create(method)).__module__)]
    while waiting:
        source = waiting.pop()
        if source is not None and source not in sources:
            sources.add(source)
            waiting += [_source(root, module) for module in _imported(source)]
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(ast.dump(_without_docstrings(source)).encode())
    return digest.hexdigest()[:12]


def _source(root: Path, module: str) -> Path | None:
    """Find the file of one of our modules; none if the name is not a module's, or not one of ours."""
    path = root.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return path if module.startswith("dplan.") and path.exists() else None


def _imported(source: Path) -> list[str]:
    """List what a file imports when it is imported itself; what its functions import later is not theirs alone."""
    names = []
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _without_docstrings(source: Path) -> ast.Module:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body.pop(0)
    return tree


def data_fingerprint(dataset: Dataset) -> str:
    """Give a fingerprint of a data set's contents, the same however its file was written.

    Examples
    --------
    >>> from dplan.datasets import load
    >>> len(data_fingerprint(load("covertype-mini")))
    12
    """
    digest = hashlib.sha256(repr(dataset.features.schema).encode())
    for column in (*dataset.features.iter_columns(), dataset.labels):
        if column.dtype in (pl.String, pl.Enum):
            digest.update("\0".join(map(str, column.to_list())).encode())
        else:
            digest.update(np.ascontiguousarray(column.to_numpy()).tobytes())
    return digest.hexdigest()[:12]


def machine() -> dict[str, str | int | None]:
    """Describe the machine; no names of people or hosts.

    Examples
    --------
    >>> sorted(machine())
    ['cores', 'processor', 'system']
    """
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # no Linux
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor,
        "cores": os.cpu_count(),
    }


def differences(old: dict[str, str], new: dict[str, str]) -> str:
    """Say in words what differs between two configurations.

    Examples
    --------
    >>> differences({"numpy": "2.0", "scipy": "1"}, {"numpy": "2.1", "scipy": "1"})
    'numpy was 2.0 and is 2.1'
    """
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(
        f"{name} was {old.get(name, 'absent')} and is {new.get(name, 'absent')}" for name in names
    )
