"""How long loading and preparing Covertype takes, against polars just reading the file.

python -m benchmarks.data path/to/folder-of-data-sets
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from dplan.data.catalog import source_of
from dplan.data.datasets import from_source
from dplan.data.preparing import TablePreparer

BAR = 3.0


def covertype_ratio(folder: Path, rounds: int = 9) -> float:
    """Median time of load + prepare over median time of reading, both measured by turns in one run."""
    path = folder / "covertype.parquet"

    def load_and_prepare() -> object:  # `load` without its cache
        dataset = from_source(source_of("covertype"), pl.read_parquet(path), path)
        return TablePreparer().fit(dataset.features).transform(dataset.features)

    reading, preparing = [], []
    for _ in range(rounds):
        reading.append(_seconds(lambda: pl.read_parquet(path)))
        preparing.append(_seconds(load_and_prepare))
    return statistics.median(preparing) / statistics.median(reading)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    print(f"Covertype, load + prepare / read: {covertype_ratio(Path(sys.argv[1])):.2f} (bar: {BAR:.0f})")
