"""How long loading and preparing Covertype takes, against polars just reading the file."""

import os
from pathlib import Path

import polars as pl

from benchmarks.bars import Bar, interleaved, show
from dplan.datasets.loading import from_source
from dplan.datasets.registry import source_of
from dplan.tables.preparing import TablePreparer

BAR = 3.0


def run() -> bool:
    """Measure it where the data set is there, print it, and return whether the bar holds."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DPLAN_DATA_HOME", beside))
    if not (folder / "covertype.parquet").is_file():
        print(f"Data: skipped, covertype.parquet is not in {folder} (DPLAN_DATA_HOME)")
        return True
    reading, preparing = covertype_seconds(folder)
    detail = f"reading {reading * 1e3:.0f} ms, loading and preparing {preparing * 1e3:.0f} ms"
    return show("Data", [Bar("Covertype, load + prepare / read", preparing / reading, detail, at_most=BAR)])


def covertype_seconds(folder: Path, rounds: int = 15) -> tuple[float, float]:
    """Best times of reading the file and of loading and preparing it, measured by turns."""
    path = folder / "covertype.parquet"

    def load_and_prepare() -> object:  # `load` without its cache
        dataset = from_source(source_of("covertype"), pl.read_parquet(path), path)
        return TablePreparer().fit(dataset.features).transform(dataset.features)

    reading, preparing = interleaved([lambda: pl.read_parquet(path), load_and_prepare], rounds)
    return reading, preparing


if __name__ == "__main__":
    run()
