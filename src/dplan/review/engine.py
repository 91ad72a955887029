"""Score the table under review, learn from the verdicts, and choose the rows to ask about."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import clone

from dplan.detectors._base import Detector
from dplan.detectors.ensemble import DPLANEnsemble
from dplan.detectors.iforest import IForest
from dplan.exceptions import NoLabelsWarning
from dplan.query import Likeness, asking_order, blended, explored_share, trust
from dplan.review.rounds import Judged, Progress, Round, digest_of
from dplan.review.rows import TableFile, row_ids, rows_with_ids
from dplan.tables.chunks import Chunk
from dplan.tables.fitting import fit_table
from dplan.tables.input import as_text
from dplan.tables.labels import LabelledTable
from dplan.tables.model import TableModel
from dplan.tables.parts import highest
from dplan.tables.review_queue import Verdicts
from dplan.tables.row_keys import row_keys
from dplan.tables.updating import copied, trained_with
from dplan.tables.workers import in_threads

__all__ = ["Engine"]

POOL = 1_000  # rows with the highest scores that may be shown
_SAMPLE = 20_000  # unlabelled rows that a refit learns from
_EXPLORED = 50  # rows that the explorers alone find
NORMAL = -1  # the label of a row that was checked and found normal


def quiet(stage: str, done: int, total: int | None) -> None:
    """Show no progress."""


class Engine:
    """Makes rounds, in this process.

    Parameters
    ----------
    table : TableFile
        The table under review.
    model : path or None
        The model to begin with; None to begin without labels, with an isolation forest.
    drop : collection of str
        Columns to ignore if there is no model.
    seed : int
        Seed of the training.
    """

    def __init__(
        self, table: TableFile, model: Path | None, *, drop: Collection[str] = (), seed: int = 0
    ) -> None:
        self.table, self.seed = table, seed
        self._model, self._drop = model, tuple(drop)
        self._seen = pl.DataFrame()  # every row that was ever in a pool, because a verdict may come late
        self._places: dict[int, int] = {}
        self._sample = _Kept(_SAMPLE)
        self._explored: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._first = np.empty(0)  # the scores of the first model

    @cached_property
    def base(self) -> TableModel:
        """The model to begin with."""
        if self._model is not None:
            return TableModel.load(self._model)
        ids = self.table.ids
        frame, _ = self.table.input.read(as_text([*ids, *self._drop]))
        features = frame.drop(dict.fromkeys([*ids, *self._drop]))
        unlabelled = np.zeros(frame.height, dtype=np.int64)
        table = LabelledTable(features, unlabelled, ("unlabelled",), frame.select(ids), "", self.table.input)
        return fit_table(table, IForest(random_state=self.seed), estimate=False, seed=self.seed)

    @cached_property
    def _explorer(self) -> IForest:
        return IForest(random_state=self.seed).fit(self.base.background)

    def open(self, wanted: Collection[tuple[str, ...]] = (), progress: Progress = quiet) -> Round:
        """Score the table with the first model; the pool includes the rows with the wanted ids."""
        progress("Reading the table", 0, None)
        rng = np.random.default_rng(self.seed)
        finds, scores, top, extra = _Kept(2 * _EXPLORED), [], _Kept(POOL), []
        first, base = 0, self.base
        with ThreadPoolExecutor(1) as growing:
            explorer = growing.submit(lambda: self._explorer)  # while rows are read and scored
            for frame, found in self._scored(base, progress):
                numbers = np.arange(first, first + frame.height)
                scores.append(found)
                top.add(frame, numbers, -found)
                keys = rng.random(frame.height)
                self._sample.add(frame, numbers, keys)
                drawn = np.argsort(keys, kind="stable")[: self._sample.n_rows]
                rows = frame[drawn]
                finds.add(rows, numbers[drawn], -explorer.result().anomaly_score(base.prepare(rows)))
                again = rows_with_ids(frame, self.table.ids, first, wanted)
                extra.append((frame[again], numbers[again]))
                first += frame.height
        unseen = ~np.isin(finds.numbers, top.numbers[:_EXPLORED])
        self._explored = finds.numbers[unseen][:_EXPLORED]
        extra.append((finds.frame[np.flatnonzero(unseen)[:_EXPLORED]], self._explored))
        self._first = np.concatenate(scores)
        return self._round(0, self.base, self._first, [(top.frame, top.numbers), *extra], ())

    def refit(self, judged: Sequence[Judged], number: int, progress: Progress = quiet) -> Round:
        """Learn from verdicts and score the table again; the judged rows must have been in a pool."""
        progress("Learning from your verdicts", 0, None)
        self.table.check_unchanged()
        model = self._learned(judged, progress)
        scores, top = [], _Kept(POOL)
        first = 0
        for frame, found in self._scored(model, progress):
            scores.append(found)
            top.add(frame, np.arange(first, first + frame.height), -found)
            first += frame.height
        rows = [row for row, _ in judged]
        kept = np.array(list(dict.fromkeys([*rows, *self._explored.tolist()])), dtype=np.int64)
        before = self._seen[[self._places[row] for row in kept.tolist()]]
        frames = [(top.frame, top.numbers), (before, kept)]
        return self._round(number, model, np.concatenate(scores), frames, judged)

    def _scored(
        self, model: TableModel, progress: Progress
    ) -> Iterator[tuple[pl.DataFrame, NDArray[np.float64]]]:
        n_rows = 0
        with in_threads(model, 2) as run:
            jobs = ((chunk, frame) for _, chunk, frame in self.table.chunks())
            for frame, found in run(_score, jobs):
                n_rows += frame.height
                progress("Scoring rows", n_rows, None)
                yield frame, found

    def _learned(self, judged: Sequence[Judged], progress: Progress) -> TableModel:
        """Return the first model, trained further on the verdicts so far."""
        base, ids = self.base, list(self.table.ids)
        numbers = np.array([row for row, _ in judged], dtype=np.int64)
        others = np.flatnonzero(~np.isin(self._sample.numbers, numbers))
        rows = self._seen[[self._places[row] for row in numbers.tolist()]]
        frame = pl.concat([self._sample.frame[others], rows], how="diagonal_relaxed")
        numbers = np.concatenate([self._sample.numbers[others], numbers])
        classes = tuple(dict.fromkeys(["unlabelled", *(name for _, name in judged if name)]))
        verdicts = [classes.index(name) if name else NORMAL for _, name in judged]
        y = np.concatenate([np.zeros(len(others), dtype=np.int64), np.array(verdicts, dtype=np.int64)])
        prepared = base.prepare(frame)
        identified = bool(ids) and ids == list(base.summary.get("ids", ()))
        keys = row_keys(frame.select(ids if identified else []), prepared)
        names = [", ".join(row) for row in row_ids(frame, ids)] if ids else [f"row {n + 1}" for n in numbers]
        detector = self._detector(progress)
        with warnings.catch_warnings():
            # False alarms alone are worth learning from, too.
            warnings.simplefilter("ignore", NoLabelsWarning)
            new = Verdicts(prepared, y, classes, keys, identified, names)
            model = trained_with(base, new, detector, seed=self.seed)
        detector.set_params(callback=None)
        # Background rows stay the same, so that typical values do not change under the reviewer's eyes.
        return replace(model, background=base.background)

    def _detector(self, progress: Progress) -> Detector:
        """Return the detector to train: a copy of the first one if that can learn from labels."""
        first = self.base.detector
        if not first.uses_labels:
            detector: Detector = DPLANEnsemble(n_jobs=-1)
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
        frames: list[tuple[pl.DataFrame, NDArray[np.int64]]],
        judged: Sequence[Judged],
    ) -> Round:
        rows, first = np.unique(np.concatenate([numbers for _, numbers in frames]), return_index=True)
        pool = pl.concat([frame for frame, _ in frames], how="diagonal_relaxed")[first]
        by_score = np.argsort(-scores[rows], kind="stable")
        rows, pool = rows[by_score], pool[by_score]
        self._remember(pool, rows.tolist())
        prepared = model.prepare(pool)
        likeness = Likeness(model.background, model.preparation.feature_groups())
        groups = likeness.groups(prepared)
        waiting = np.flatnonzero(~np.isin(rows, [row for row, _ in judged]))
        novelty = self._explorer.anomaly_score(prepared)[waiting]
        found = {row: bool(name) for row, name in judged}
        share = explored_share(found, set(self._explored.tolist()))
        asked = rows[waiting]
        trusted = trust(found) if self.base.detector.uses_labels else 0.0
        suspicion = blended(scores[asked], self._first[asked], trusted)
        order, explored = asking_order(suspicion, novelty, share, likeness.duplicates_in(prepared[waiting]))
        uncertainty = getattr(model.detector, "uncertainty", None)
        disagreement = np.empty(0) if uncertainty is None else uncertainty(prepared)
        with TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.dplan")
            digest = digest_of((Path(folder) / "model.dplan").read_bytes())
        return Round(
            number, model, digest, scores, pool, rows, asked[order], asked[explored], groups, disagreement
        )

    def _remember(self, pool: pl.DataFrame, rows: list[int]) -> None:
        new = [place for place, row in enumerate(rows) if row not in self._places]
        self._places |= {rows[place]: self._seen.height + i for i, place in enumerate(new)}
        self._seen = pl.concat([self._seen, pool[new]], how="diagonal_relaxed")


def _score(model: TableModel, chunk: Chunk, frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    with chunk.located():
        return frame, model.score(frame)


class _Kept:
    """The rows with the lowest keys seen so far, in the order of their keys."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.frame = pl.DataFrame()
        self.numbers: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._keys = np.empty(0)

    def add(self, frame: pl.DataFrame, numbers: NDArray[np.int64], keys: NDArray[np.float64]) -> None:
        some = highest(-keys, self.n_rows)
        joined = pl.concat([self.frame, frame[some]], how="diagonal_relaxed")
        keys = np.concatenate([self._keys, keys[some]])
        order = highest(-keys, self.n_rows)
        self.frame, self._keys = joined[order], keys[order]
        self.numbers = np.concatenate([self.numbers, numbers[some]])[order]
