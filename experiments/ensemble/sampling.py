"""What a sample of the unlabelled rows costs: `dplan fit --sample` with several sizes, on all of Covertype.

    DPLAN_DATA_HOME=path/to/data python -m experiments.ensemble.sampling FOLDER [--print]

The table has 581,012 rows of seven kinds of forest; cottonwood (0.5 %) is the anomaly. 70 % of the rows, drawn for each
seed, are the training table, in which 60 cottonwood rows are known and the others are hidden; the remaining 30 % are
scored. What was measured is in `experiments/results/sampling`.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from dplan import DPLANEnsemble
from dplan.datasets import data_home
from dplan.metrics import RankedScores
from dplan.tables import fit_table, from_table
from dplan.tables.sampling import SAMPLE_ROWS
from experiments.ensemble.measuring import RESULTS, Arms, Place, main, measured
from experiments.pages import markdown_table

RECORDS = RESULTS / "sampling"
SIZES = (30_000, 100_000, SAMPLE_ROWS, None)
COTTONWOOD, N_KNOWN, TRAIN_SHARE = 4, 60, 0.7


def places() -> list[Place]:
    """List seeds and sizes of the sample."""
    return [{"seed": seed, "rows": size} for seed in range(100, 103) for size in SIZES]


def arms(place: Place) -> Arms:
    """Fit the ensemble with a sample of the rows."""
    table = pl.read_parquet(data_home() / "covertype.parquet")
    rng = np.random.default_rng(place["seed"])
    train = rng.random(table.height) < TRAIN_SHARE
    anomalous = (table["cover_type"] == COTTONWOOD).to_numpy()
    known = rng.choice(np.flatnonzero(train & anomalous), N_KNOWN, replace=False)
    label = pl.Series("label", np.isin(np.arange(table.height), known).astype(np.int64))
    rows, test = table.drop("cover_type").with_columns(label), table.filter(~train)
    with tempfile.TemporaryDirectory() as folder:
        rows.filter(train).write_parquet(Path(folder) / "train.parquet")
        started = time.perf_counter()
        own = from_table(Path(folder) / "train.parquet", "label", sample=place["rows"], seed=place["seed"])
        detector = DPLANEnsemble(n_jobs=-1, random_state=place["seed"])
        model = fit_table(own, detector, estimate=False, seed=place["seed"])
        seconds = time.perf_counter() - started
    areas = RankedScores(model.score(test)).areas(anomalous[~train], ~anomalous[~train])
    assert areas is not None
    found = {"auc_pr": areas[0], "auc_roc": areas[1], "seconds": round(seconds, 1)}
    return {"DPLANEnsemble": found}


def lines(folder: Path = RECORDS) -> Iterator[str]:
    """Yield a table of means, and of the differences from all rows, over the seeds."""
    values = {(r["rows"], r["seed"]): (r["auc_pr"], r["auc_roc"]) for r in measured(folder)}
    seeds = sorted({seed for _, seed in values})
    rows = []
    for size in SIZES:
        own = np.array([values[size, seed] for seed in seeds])
        gaps = own[:, 0] - np.array([values[None, seed][0] for seed in seeds])
        said = "" if size is None else f"{gaps.mean():+.3f} ± {gaps.std(ddof=1):.3f}"
        pr, roc = own.mean(axis=0)
        rows.append(["all" if size is None else f"{size:,}", f"{pr:.3f}", said, f"{roc:.3f}"])
    yield from markdown_table(["unlabelled rows", "AUC-PR", "difference from all rows", "AUC-ROC"], rows)


if __name__ == "__main__":
    main(str(__doc__), places, arms, lines)
