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
from dplan.data import Dataset

__all__ = ["code_fingerprint", "data_fingerprint", "differences", "machine", "versions"]

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "polars")
_FOLDERS = ("agent", "detectors", "data")
_FILES = ("perceptron.py", "variants.py", "benchmark/cells.py", "benchmark/measures.py")


@cache
def versions() -> dict[str, str]:
    """Give the versions of everything that takes part in a cell.

    Examples
    --------
    >>> sorted(versions())
    ['code', 'dplan', 'numba', 'numpy', 'polars', 'python', 'scikit-learn', 'scipy']
    """
    libraries = {name: version(name) for name in _LIBRARIES}
    return {
        "dplan": __version__,
        "code": code_fingerprint(),
        "python": platform.python_version(),
        **libraries,
    }


def code_fingerprint() -> str:
    """Give a fingerprint of the code that cells run; comments and docstrings do not count.

    Examples
    --------
    >>> len(code_fingerprint())
    12
    """
    root = Path(str(files("dplan")))
    sources = [root / name for name in _FILES]
    for folder in _FOLDERS:
        sources += (root / folder).rglob("*.py")
    digest = hashlib.sha256()
    for source in sorted(sources):
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
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def data_fingerprint(dataset: Dataset) -> str:
    """Give a fingerprint of a data set's contents, the same however its file was written.

    Examples
    --------
    >>> from dplan.data import load
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
    >>> differences({"numpy": "2.0", "code": "a"}, {"numpy": "2.1", "code": "a"})
    'numpy was 2.0 and is 2.1'
    """
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(
        f"{name} was {old.get(name, 'absent')} and is {new.get(name, 'absent')}" for name in names
    )
