"""Cut the embedded data set out of the whole Covertype table.

    python experiments/data/cut_covertype.py path/to/covertype.parquet

Rows are drawn at random with a fixed seed and keep their order. The cut keeps the whole table's rarity of the two
anomaly classes roughly, with enough cottonwood rows for 60 labels, their share of the contamination and a test set.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

TARGET = Path(__file__).parents[2] / "src" / "dplan" / "datasets" / "covertype_mini.parquet"
ROWS_PER_CLASS = {2: 20_000, 4: 400, 6: 1_200}  # lodgepole pine, cottonwood/willow, douglas-fir


def main(source: str) -> None:
    """Read the table at `source` and write the cut into the package."""
    table = pl.read_parquet(source)
    cover_type = table["cover_type"].to_numpy()
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [
            rng.choice(np.flatnonzero(cover_type == value), size, replace=False)
            for value, size in ROWS_PER_CLASS.items()
        ]
    )
    table[np.sort(rows)].write_parquet(TARGET, compression="zstd", compression_level=19)


if __name__ == "__main__":
    main(sys.argv[1])
