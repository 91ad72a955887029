"""What results depend on besides the cell itself: versions of libraries, contents of the data, the machine."""

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl

from dplan._version import __version__
from dplan.datasets import Dataset

__all__ = ["data_fingerprint", "differences", "machine", "versions"]

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "polars")


@cache
def versions() -> dict[str, str]:
    """Return the versions of dplan and of the libraries that affect results.

    Examples
    --------
    >>> sorted(versions())
    ['dplan', 'numba', 'numpy', 'polars', 'python', 'scikit-learn', 'scipy']
    """
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"dplan": __version__, "python": platform.python_version(), **libraries}


def data_fingerprint(dataset: Dataset) -> str:
    """Return a fingerprint of a data set's contents, independent of the file format.

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
    """Describe the machine, without user and host names; the same `cpu` and versions give the same scores.

    Examples
    --------
    >>> sorted(machine())
    ['cores', 'cpu', 'processor', 'system']
    """
    from llvmlite.binding import get_host_cpu_name

    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # not Linux
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor,
        "cpu": get_host_cpu_name(),
        "cores": os.cpu_count(),
    }


def differences(old: dict[str, str], new: dict[str, str]) -> str:
    """Describe the differences between two configurations, for the keys in both.

    Examples
    --------
    >>> differences({"numpy": "2.0", "scipy": "1"}, {"numpy": "2.1", "scipy": "1", "polars": "2"})
    'numpy was 2.0, now 2.1'
    """
    return ", ".join(
        f"{name} was {old[name]}, now {value}" for name, value in new.items() if old.get(name, value) != value
    )
