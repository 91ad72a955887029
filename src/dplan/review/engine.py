"""Make rounds: score the table under review, choose the rows to ask about, and learn from the verdicts."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.detectors._base import Detector
from dplan.detectors._terms import ForestTerm
from dplan.detectors.ensemble import DPLANEnsemble
from dplan.detectors.ensemble.members import grown_forest
from dplan.detectors.iforest import IForest
from dplan.exceptions import NoLabelsWarning
from dplan.query import asking_order, blended, explored_share, trust
from dplan.review.rounds import Progress, Round, likeness_of
from dplan.review.table import TableFile
from dplan.scoring.scorer import Batch, Best, Scored, Scorer, together
from dplan.scoring.threads import in_threads
from dplan.tables.chunks import Chunk
from dplan.tables.fitting import fit_table
from dplan.tables.labelled import LabelledTable
from dplan.tables.labels import Judged
from dplan.tables.model import TableModel
from dplan.tables.row_keys import find, row_ids, row_keys
from dplan.tables.updating import copied, trained_with

__all__ = ["POOL", "Engine", "load_kernels"]

POOL = 1_000  # rows with the highest scores that may be shown
_SAMPLE = 20_000  # unlabelled rows that a refit learns from
_EXPLORED = 50  # rows that the explorers alone find


def quiet(stage: str, done: int, total: int | None) -> None:
    """Show no progress."""


def load_kernels() -> None:
    """Grow a small forest: the first kernel that is loaded takes numba longest."""
    rows = np.eye(2, dtype=np.float32)
    ForestTerm(*grown_forest(rows, n_trees=1, tree_size=2, rng=np.random.default_rng(0))).values(rows)


class Engine:
    """Makes rounds, in this process.

    Parameters
    ----------
    table : TableFile
        The table under review.
    model : TableModel, path or None
        The model to begin with; None to begin without labels, with an isolation forest.
    drop : collection of str
        Columns to ignore if there is no model.
    seed : int
        Seed of the training.
    learner : Detector, optional
        What learns from the verdicts if the model does not; by default a `DPLANEnsemble`.
    """

    def __init__(
        self,
        table: TableFile,
        model: TableModel | Path | None,
        *,
        drop: Collection[str] = (),
        seed: int = 0,
        learner: Detector | None = None,
    ) -> None:
        self.table, self.seed = table, seed
        self._learner = DPLANEnsemble(n_jobs=-1) if learner is None else learner
        self._model, self._drop = model, tuple(drop)
        self._seen: Scored | None = None  # every row that was ever in a pool, because a verdict may come late
        self._places: dict[int, int] = {}  # of these rows
        self._sample = Best(_SAMPLE)
        self._explored: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._total = 0  # rows of the table, or about as many; 0 if it is not known
        self._first = np.empty(0)  # how suspicious the first model finds each row

    @cached_property
    def base(self) -> TableModel:
        """The model to begin with."""
        if self._model is not None:
            given = self._model
            return given if isinstance(given, TableModel) else TableModel.load(given)
        ids = self.table.ids
        frame, meanings = self.table.input.read(aside=[*ids, *self._drop])
        features = frame.drop(dict.fromkeys([*ids, *self._drop]))
        unlabelled = np.zeros(frame.height, dtype=np.int64)
        table = LabelledTable(
            features,
            unlabelled,
            ("unlabelled",),
            frame.select(ids),
            "",
            self.table.input,
            meanings={name: meanings[name] for name in features.columns if name in meanings},
            missing=self.table.input.missing,
        )
        return fit_table(table, IForest(random_state=self.seed), estimate=False, seed=self.seed)

    @cached_property
    def _explorer(self) -> ForestTerm:
        """An isolation forest. It is not `IForest`, because scikit-learn takes long to be imported."""
        rng = np.random.default_rng(self.seed)
        return ForestTerm(*grown_forest(self.base.background, n_trees=100, tree_size=256, rng=rng))

    def open(self, wanted: Collection[tuple[str, ...]] = (), progress: Progress = quiet) -> Round:
        """Score the table with the first model; the pool includes the rows with the wanted ids."""
        progress("Reading the table", 0, None)
        self._total = self.table.likely_rows()
        rng = np.random.default_rng(self.seed)
        top, finds, again, scores, first = Best(POOL), Best(2 * _EXPLORED), [], [], []
        base = self.base
        with ThreadPoolExecutor(1) as growing:
            explorer = growing.submit(lambda: self._explorer)  # while rows are read and scored
            for scored in self._scored(base, progress):
                assert scored.table is not None
                assert scored.suspicion is not None
                scores.append(scored.score)
                first.append(scored.suspicion)
                top.add(scored, scored.suspicion)
                keys = -rng.random(len(scored))
                self._sample.add(scored, keys)
                drawn = scored[highest_first(keys)[:_SAMPLE]]
                finds.add(drawn, explorer.result().values(drawn.prepared).astype(np.float64))
                again.append(scored[find(scored.table, self.table.ids, int(scored.rows[0]), wanted)])
        assert top.scored is not None
        assert finds.scored is not None
        unseen = finds.scored[~np.isin(finds.scored.rows, top.scored.rows[:_EXPLORED])][:_EXPLORED]
        self._explored = unseen.rows
        self._first = np.concatenate(first)
        return self._round(0, base, np.concatenate(scores), self._first, [top.scored, *again, unseen], {})

    def refit(self, classes: Mapping[int, str], number: int, progress: Progress = quiet) -> Round:
        """Learn from verdicts and score the table again.

        Parameters
        ----------
        classes : mapping of int to str
            The class of each row with a verdict, the oldest first, and "" if it is normal.
        number : int
            Of the round.
        progress : callable
            Called with the stage, the steps done and the total, if it is known.
        """
        progress("Learning from your verdicts", 0, None)
        self.table.check_unchanged()
        self._fetch([row for row in classes if row not in self._places])
        model = self._learned(classes, progress)
        top, scores, suspicions = Best(POOL), [], []
        for scored in self._scored(model, progress):
            assert scored.suspicion is not None
            scores.append(scored.score)
            suspicions.append(scored.suspicion)
            top.add(scored, scored.suspicion)
        assert top.scored is not None
        kept = self._seen_rows(list(dict.fromkeys([*classes, *self._explored.tolist()])))
        suspicion = np.concatenate(suspicions)
        return self._round(number, model, np.concatenate(scores), suspicion, [top.scored, kept], classes)

    def _scored(self, model: TableModel, progress: Progress) -> Iterator[Scored]:
        """Score the table; yield rows with how suspicious they are, which decides what to ask."""
        n_rows, scorer = 0, Scorer(model, suspicion=True)
        progress("Scoring rows", 0, self._total or None)
        shares: list[float | None] = []  # of the file, up to the end of each chunk

        def jobs() -> Iterator[tuple[Scorer, int, Chunk, pl.DataFrame]]:
            for first, chunk, frame in self.table.chunks():
                shares.append(chunk.share)
                yield scorer, first, chunk, frame

        with in_threads(model, 2) as run:
            for done, scored in enumerate(run(_score, jobs())):
                n_rows += len(scored)
                likely = self._total or (round(n_rows / share) if (share := shares[done]) else None)
                progress("Scoring rows", n_rows, likely and max(likely, n_rows))
                yield scored
        self._total = n_rows
        progress("Scoring rows", n_rows, n_rows)

    def _learned(self, classes: Mapping[int, str], progress: Progress) -> TableModel:
        """Return the first model, trained further on the verdicts so far."""
        base, ids, sample = self.base, list(self.table.ids), self._sample.scored
        assert sample is not None
        others = sample[~np.isin(sample.rows, list(classes))]
        rows = together([others, self._seen_rows(list(classes))])
        assert rows.table is not None
        names = tuple(dict.fromkeys(["unlabelled", *filter(None, classes.values())]))
        verdicts = [names.index(name) if name else -1 for name in classes.values()]
        y = np.concatenate([np.zeros(len(others), dtype=np.int64), np.array(verdicts, dtype=np.int64)])
        identified = bool(ids) and ids == list(base.summary.ids)
        keys = row_keys(rows.table.select(ids if identified else []), rows.prepared)
        called = [", ".join(row) if ids else f"row {row[0]}" for row in row_ids(rows.table, ids, rows.rows)]
        detector = self._detector(progress)
        with warnings.catch_warnings():
            # False alarms alone are worth learning from, too.
            warnings.simplefilter("ignore", NoLabelsWarning)
            new = Judged(rows.prepared, y, names, keys, identified, called)
            model = trained_with(base, new, detector, seed=self.seed)
        detector.set_params(callback=None)
        # Background rows stay the same, so that typical values do not change under the reviewer's eyes.
        return replace(model, background=base.background)

    def _detector(self, progress: Progress) -> Detector:
        """Return the detector to train: a copy of the first one if that can learn from labels."""
        from sklearn.base import clone

        first = self.base.detector
        if not first.uses_labels:
            detector: Detector = clone(self._learner)
        else:
            detector = copied(first) if hasattr(first, "partial_fit") else clone(first)
        done = [0]

        def advance(*_: Any) -> None:
            done[0] += 1
            progress("Learning from your verdicts", done[0], detector._expected_rounds())

        return detector.set_params(random_state=self.seed, callback=advance)  # type: ignore[no-any-return]

    def _round(
        self,
        number: int,
        model: TableModel,
        scores: NDArray[np.float64],
        suspicion: NDArray[np.float64],
        parts: list[Scored],
        classes: Mapping[int, str],
    ) -> Round:
        every = together(parts)
        rows, first = np.unique(every.rows, return_index=True)
        pool = every[first[highest_first(scores[rows])]]
        self._remember(pool)
        assert pool.table is not None
        likeness = likeness_of(model)
        waiting = ~np.isin(pool.rows, list(classes))
        asked, prepared = pool.rows[waiting], pool.prepared[waiting]
        found = {row: bool(name) for row, name in classes.items()}
        share = explored_share(found, set(self._explored.tolist()))
        trusted = trust(found) if self.base.detector.uses_labels else 0.0
        urgency = blended(suspicion[asked], self._first[asked], trusted)
        novelty = self._explorer.values(prepared).astype(np.float64)
        order, explored = asking_order(urgency, novelty, share, likeness.duplicates_in(prepared))
        uncertainty = getattr(model.detector, "uncertainty", None)
        return Round(
            number,
            model,
            model.to_bytes(),
            scores,
            pool.table,
            pool.rows,
            pool.prepared,
            asked[order],
            asked[explored],
            likeness.groups(pool.prepared),
            np.empty(0) if uncertainty is None else uncertainty(pool.prepared),
        )

    def _fetch(self, rows: Sequence[int]) -> None:
        """Read rows that were never in a pool: somebody has looked for them."""
        if rows:
            scorer = Scorer(self.base, suspicion=True)
            for first, chunk, frame in self.table.chunks():
                own = [row - first for row in rows if first <= row < first + frame.height]
                if own:
                    self._remember(scorer.score(Batch(frame, chunk.place, first))[own])

    def _remember(self, pool: Scored) -> None:
        new = pool[[row not in self._places for row in pool.rows.tolist()]]
        start = len(self._places)
        self._places |= {row: start + i for i, row in enumerate(new.rows.tolist())}
        self._seen = new if self._seen is None else together([self._seen, new])

    def _seen_rows(self, rows: Sequence[int]) -> Scored:
        assert self._seen is not None
        return self._seen[[self._places[row] for row in rows]]


def _score(_: TableModel, scorer: Scorer, first: int, chunk: Chunk, frame: pl.DataFrame) -> Scored:
    return scorer.score(Batch(frame, chunk.place, first))
