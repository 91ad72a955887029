"""Build one of the paper's experiments: a few labelled anomalies, contaminated unlabelled rows, and a test set.

The rules are readings 17 to 22 of the paper: 80 % of each class for training and 20 % for the test set; 60 labelled
rows per known class; equal numbers of anomalies of all classes among the unlabelled rows; synthetic anomalies if there
are too few real ones. Every draw has its own random stream, so experiments that differ in one setting share everything
else: all scenarios of a data set have the same test set, Scenario II adds labelled rows to those of Scenario I, and
more pollution adds anomalies to less.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.preparer import TablePreparer
from dplan.datasets.loading import Dataset, hashes, load
from dplan.datasets.registry import scenario_id
from dplan.datasets.splits import Rows, Stream, equal_shares, split_by_class

__all__ = ["Protocol", "Task", "scenario", "synthetic_anomalies"]

Protocol = Literal["fixed", "resampled"]

_TEST_SHARE = 0.2
_SWAPPED_SHARE = 0.05
_BATCH = 1024  # of synthetic rows; a constant, so that the first rows do not depend on their number
_MAX_BARREN_BATCHES = 50
# One stream per kind of draw.
_CAP, _SPLIT, _ANOMALIES, _TRAINING_ORDER, _TEST_ORDER, _SYNTHETIC = range(10, 16)


@dataclass(frozen=True, eq=False)
class Task:
    """One experiment: training rows and test rows.

    Attributes
    ----------
    id : str
        The scenario's id.
    seed, protocol, contamination : int, str, float
        As given to `scenario`.
    dataset : Dataset
        Where the rows come from.
    known : tuple of int
        Class numbers with labelled rows, in the order in which they were added.
    y : ndarray of int
        Training labels: 0 for unlabelled, k for a labelled anomaly of class k.
    rows, rows_test : ndarray of int
        The row of ``dataset.features`` behind each training and test row; -1 for synthetic rows.
    true_classes : ndarray of int
        The true class of each training row: 0 for normal, k for an anomaly of class k. Only for evaluation.
    y_test : ndarray of int
        Class numbers of the test rows.
    notes : tuple of str
        Classes with fewer rows than requested, one sentence each.

    Examples
    --------
    >>> task = scenario("covertype-mini/cottonwood-v1")
    >>> task.X.shape, int((task.y > 0).sum()), len(task.y_test)
    ((16387, 54), 60, 4320)
    """

    id: str
    seed: int
    protocol: Protocol
    contamination: float
    dataset: Dataset = field(repr=False)
    known: tuple[int, ...]
    y: NDArray[np.int64] = field(repr=False)
    rows: Rows = field(repr=False)
    true_classes: NDArray[np.int64] = field(repr=False)
    rows_test: Rows = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)
    notes: tuple[str, ...] = ()
    _synthetic: pl.DataFrame | None = field(default=None, repr=False)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names by class number: ``classes[0]`` is ``"normal"``, ``classes[k]`` the k-th anomaly class."""
        return ("normal", *self.dataset.anomalies)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Anomaly classes without a labelled row."""
        return tuple(k for k in range(1, len(self.classes)) if k not in self.known)

    @property
    def known_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of a known class."""
        return np.isin(self.y_test, self.known)

    @property
    def unknown_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of an unknown class."""
        return np.isin(self.y_test, self.unknown)

    @property
    def n_synthetic(self) -> int:
        """Synthetic anomalies among the unlabelled rows."""
        return 0 if self._synthetic is None else self._synthetic.height

    @property
    def partial(self) -> tuple[str, ...]:
        """What is missing compared with the paper's Table 1."""
        return self.dataset.partial

    @cached_property
    def features(self) -> pl.DataFrame:
        """The training rows before preparation."""
        real = self.dataset.features[self.rows[self.rows >= 0]]
        if self._synthetic is None:
            return real
        stacked = pl.concat([real, self._synthetic])
        place = np.empty(len(self.rows), dtype=np.int64)
        place[self.rows >= 0] = np.arange(real.height)
        place[self.rows < 0] = np.arange(real.height, stacked.height)
        return stacked[place]

    @property
    def features_test(self) -> pl.DataFrame:
        """The test rows before preparation."""
        return self.dataset.features[self.rows_test]

    @cached_property
    def preparer(self) -> TablePreparer:
        """The preparation, fitted on the training rows alone."""
        return TablePreparer().fit(self.features)

    @cached_property
    def X(self) -> NDArray[np.float32]:
        """Training rows, prepared on first access: float32 in [0, 1]."""
        return np.ascontiguousarray(self.preparer.transform(self.features))

    @cached_property
    def X_test(self) -> NDArray[np.float32]:
        """Test rows, prepared like the training rows; values may be outside [0, 1]."""
        return np.ascontiguousarray(self.preparer.transform(self.features_test))


def scenario(
    id: str,
    *,
    seed: int = 0,
    protocol: Protocol = "resampled",
    n_labelled: int = 60,
    contamination: float | None = None,
    dataset: Dataset | None = None,
) -> Task:
    """Build an experiment of the paper.

    Parameters
    ----------
    id : str
        A scenario id; `scenarios` lists all of them.
    seed : int, default=0
        With ``resampled``, every seed draws different rows. With ``fixed``, all seeds give the same rows, and only the
        detector's randomness varies.
    protocol : {"resampled", "fixed"}, default="resampled"
        ``fixed`` explains the paper's small standard deviations; ``resampled`` is more realistic.
    n_labelled : int, default=60
        Labelled anomalies per known class. If a class has fewer training rows, all of them are used and
        ``task.notes`` says so.
    contamination : float, optional
        Fraction of anomalies among the unlabelled rows; default: that of the scenario.
    dataset : Dataset, optional
        The data set, if it is already loaded.

    Returns
    -------
    Task
        Training and test rows, prepared on first access.

    Examples
    --------
    >>> task = scenario("covertype-mini/cottonwood-v1", seed=0)
    >>> task.X.shape, task.X_test.shape
    ((16387, 54), (4320, 54))
    >>> np.bincount(task.y).tolist(), np.bincount(task.y_test).tolist()
    ([16327, 60], [4000, 80, 240])
    >>> task.classes, task.known, task.unknown
    (('normal', 'cottonwood', 'douglas-fir'), (1,), (2,))
    """
    entry = scenario_id(id)
    if dataset is None:
        dataset = load(entry.dataset)
    rate = entry.contamination if contamination is None else contamination
    _check(dataset, entry.dataset, seed, protocol, n_labelled, rate)
    draw_seed = seed if protocol == "resampled" else 0
    known = tuple(dataset.anomalies.index(name) + 1 for name in entry.known)

    training, test = _split(dataset, draw_seed)
    classes = dataset.class_numbers
    labelled: list[Rows] = []
    unlabelled_anomalies: list[Rows] = []
    notes: list[str] = []
    for k, name in enumerate(dataset.anomalies, start=1):
        order = Stream(draw_seed, _ANOMALIES, k).shuffled(training[classes[training] == k])
        n = n_labelled if k in known else 0
        if n > len(order):
            notes.append(
                f"class {name}: {len(order)} labelled rows instead of {n}, all that the training rows have"
            )
        labelled.append(order[:n])
        # From the other end of the same order, so that labelling more rows hardly changes the contaminants.
        unlabelled_anomalies.append(order[n:][::-1])

    normal = training[classes[training] == 0]
    wanted = round(rate * len(normal) / (1.0 - rate))
    shares = equal_shares(wanted, [len(rows) for rows in unlabelled_anomalies])
    contaminants = np.concatenate([rows[:n] for rows, n in zip(unlabelled_anomalies, shares, strict=True)])
    pool = np.concatenate(unlabelled_anomalies)
    n_synthetic = wanted - len(contaminants)
    made, made_from = synthetic_anomalies(dataset, pool, n_synthetic, Stream(draw_seed, _SYNTHETIC))

    labelled_rows = np.concatenate(labelled)
    unlabelled_rows = np.concatenate([normal, contaminants, np.full(n_synthetic, -1)])
    unlabelled_classes = np.concatenate([classes[normal], classes[contaminants], classes[made_from]])
    order = Stream(draw_seed, _TRAINING_ORDER).shuffled(np.arange(len(unlabelled_rows)))
    test = Stream(draw_seed, _TEST_ORDER).shuffled(test)
    return Task(
        id=id,
        seed=seed,
        protocol=protocol,
        contamination=rate,
        dataset=dataset,
        known=known,
        y=np.concatenate([classes[labelled_rows], np.zeros(len(unlabelled_rows), dtype=np.int64)]),
        rows=np.concatenate([labelled_rows, unlabelled_rows[order]]),
        true_classes=np.concatenate([classes[labelled_rows], unlabelled_classes[order]]),
        rows_test=test,
        y_test=classes[test],
        notes=tuple(notes),
        _synthetic=None if made is None else made[_places(unlabelled_rows, order)],
    )


def _places(unlabelled_rows: Rows, order: Rows) -> Rows:
    """Return the order of the synthetic rows after shuffling."""
    n_real = int((unlabelled_rows >= 0).sum())
    called: Rows = order[order >= n_real] - n_real
    return called


def _split(dataset: Dataset, seed: int) -> tuple[Rows, Rows]:
    """Cap the anomaly classes, then split each class 80 : 20; copies of a row stay together."""
    classes = dataset.class_numbers
    kept: list[Rows] = []
    for k in range(len(dataset.anomalies) + 1):
        rows = np.flatnonzero(classes == k)
        if k > 0 and dataset.source.max_rows_per_class is not None:
            rows = Stream(seed, _CAP, k).shuffled(rows)[: dataset.source.max_rows_per_class]
        kept.append(rows)
    rows = np.sort(np.concatenate(kept))
    in_test = split_by_class(classes[rows], dataset.copy_groups[rows], _TEST_SHARE, Stream(seed, _SPLIT))
    return rows[~in_test], rows[in_test]


def _check(
    dataset: Dataset, expected: str, seed: int, protocol: str, n_labelled: int, contamination: float
) -> None:
    if dataset.name != expected:
        raise ValueError(f"the id is for {expected!r}, but dataset is {dataset.name!r}")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, not {seed}")
    if protocol not in ("fixed", "resampled"):
        raise ValueError(f"protocol must be 'fixed' or 'resampled', not {protocol!r}")
    if n_labelled < 1:
        raise ValueError(f"n_labelled must be at least 1, not {n_labelled}")
    if not 0.0 <= contamination < 1.0:
        raise ValueError(f"contamination must be at least 0 and below 1, not {contamination}")


def synthetic_anomalies(
    dataset: Dataset, pool: Rows, n: int, stream: Stream
) -> tuple[pl.DataFrame | None, Rows]:
    """Make `n` rows, each a row of `pool` with 5 % of its features (at least one) from another row of `pool`.

    They are for more pollution than a data set has real anomalies, and made as in DevNet, by the same group. A row
    that is equal to a row of the table is drawn again, because it could be a copy of a test row.

    Parameters
    ----------
    dataset : Dataset
        The table.
    pool : ndarray of int
        Rows of unlabelled training anomalies.
    n : int
        Rows to make.
    stream : Stream
        Random stream.

    Returns
    -------
    features : polars.DataFrame or None
        The new rows with the columns of ``dataset.features``; None if `n` is 0.
    origins : ndarray of int
        The row of `pool` that each was made from, which has the same class.
    """
    if n <= 0:
        return None, np.empty(0, dtype=np.int64)
    if len(pool) < 2:
        raise ValueError(
            f"{n} synthetic anomalies need at least two real ones in training, there are {len(pool)}"
        )
    names = dataset.features.columns
    n_swapped = max(1, int(_SWAPPED_SHARE * len(names)))
    made: list[pl.DataFrame] = []
    origins: list[Rows] = []
    n_made = 0
    for _ in range(_MAX_BARREN_BATCHES + n // _BATCH):
        first = stream.below(len(pool), _BATCH)
        second = (first + 1 + stream.below(len(pool) - 1, _BATCH)) % len(pool)
        swapped = stream.subsets(_BATCH, len(names), n_swapped)
        mine, other = dataset.features[pool[first]], dataset.features[pool[second]]
        mixed = mine.with_columns(
            pl.when(pl.Series(swapped[:, j])).then(other[name]).otherwise(mine[name]).alias(name)
            for j, name in enumerate(names)
        )
        numbers = hashes(mixed)
        places = np.searchsorted(dataset.sorted_hashes, numbers) % len(dataset.sorted_hashes)
        new = dataset.sorted_hashes[places] != numbers
        made.append(mixed.filter(new))
        origins.append(pool[first][new])
        n_made += int(new.sum())
        if n_made >= n:
            return pl.concat(made)[:n], np.concatenate(origins)[:n]
    raise ValueError(
        f"only {n_made} of {n} synthetic anomalies could be made: the {len(pool)} real ones of "
        f"{dataset.name} are too similar; use a lower contamination"
    )
