"""How long reading takes: Covertype loaded and prepared, a CSV of 1,000,000 × 50, and files made to be slow.

The first two are held against polars just reading the file; the others against a quarter of themselves.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.bars import Bar, interleaved, show
from dplan.columns.preparer import TablePreparer
from dplan.datasets.loading import from_source
from dplan.datasets.registry import source_of
from dplan.tables.input import Input
from dplan.tables.reading import read_table

BAR = 3.0
CSV_BAR = 4.0
LINEAR_BAR = 2.0  # time per byte of n rows, columns, levels or characters, against that of a quarter


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    bars = [csv_bar(), *linear_bars()]
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DPLAN_DATA_HOME", beside))
    if (folder / "covertype.parquet").is_file():
        reading, preparing = covertype_seconds(folder)
        detail = f"reading {reading * 1e3:.0f} ms, loading and preparing {preparing * 1e3:.0f} ms"
        bars.append(Bar("Covertype, load + prepare / read", preparing / reading, detail, at_most=BAR))
    else:
        print(f"Covertype: skipped, covertype.parquet is not in {folder} (DPLAN_DATA_HOME)")
    return show("Data", bars)


def csv_bar(n_rows: int = 1_000_000, n_columns: int = 50) -> Bar:
    """Hold reading a CSV, with every cell checked and every column understood, against polars reading it."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        columns: dict[str, NDArray[Any]] = {
            f"c{j}": rng.normal(100, 20, n_rows).round(2) for j in range(n_columns - 10)
        }
        columns |= {f"i{j}": rng.integers(0, 10**j, n_rows) for j in range(1, 6)}
        columns |= {f"t{j}": rng.choice(["alpha", "beta", "gamma"], n_rows) for j in range(5)}
        pl.DataFrame(columns).write_csv(path)
        polars, ours = interleaved([lambda: pl.read_csv(path), lambda: read_table(path)], 2)
    detail = f"{ours:.1f} s against {polars:.1f} s"
    return Bar(
        f"CSV of {n_rows:,} × {n_columns}, read_table / polars", ours / polars, detail, at_most=CSV_BAR
    )


def linear_bars() -> list[Bar]:
    """Hold the time per byte of awkward files against that of files a quarter as large."""
    makers: dict[str, tuple[int, Callable[[int], bytes]]] = {
        "a stray quote, 40 MB": (10_000_000, lambda n: b'a,b\n1,"oops\n' + b"2,x\n" * n),
        "100,000 columns": (100_000, _wide),
        "1,000,000 levels": (
            1_000_000,
            lambda n: b"a,b\n" + b"".join(b"%d,t%d\n" % (i, i) for i in range(n)),
        ),
        "cells of 10 MB": (10_000_000, lambda n: b"a,b\n" + b"1," + b"x" * n + b'\n2,"' + b"y" * n + b'"\n'),
    }
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (n, make) in makers.items():
            paths = [Path(folder) / f"{name} {size}.csv" for size in (n // 4, n)]
            for path, size in zip(paths, (n // 4, n), strict=True):
                path.write_bytes(make(size))
            small, large = interleaved([partial(_read_through, path) for path in paths], 3)
            ratio = (large / paths[1].stat().st_size) / (small / paths[0].stat().st_size)
            detail = f"{large:.2f} s against {small:.2f} s"
            bars.append(Bar(f"{name}: time per byte / a quarter of it", ratio, detail, at_most=LINEAR_BAR))
    return bars


def _wide(n: int) -> bytes:
    names = ",".join(f"c{j}" for j in range(n))
    return (names + "\n" + (",".join(["7"] * n) + "\n") * 3).encode()


def _read_through(path: Path) -> None:
    """Read a table as fitting does, prepare it, and read it as scoring does."""
    with contextlib.suppress(ValueError):  # the stray quote
        table = read_table(path)
        TablePreparer().fit(table).transform(table)
        for chunk in Input(path).chunks():
            chunk()


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
