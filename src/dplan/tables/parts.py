"""Score one chunk of a table and explain some of its rows, possibly on another machine.

Results are files in a working folder. Each file name contains a digest of everything the result depends on (the model,
the rows and the options), so an existing file can always be reused.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._version import __version__
from dplan.columns.differences import Drift, TransformReport
from dplan.exceptions import NonFiniteScoreError
from dplan.persistence.atomic import atomic_write
from dplan.tables.chunks import Chunk, Conventions
from dplan.tables.input import Input
from dplan.tables.mistakes import OnError, tolerated
from dplan.tables.model import TableModel
from dplan.tables.words import has_verdict
from dplan.tables.writing import check_types

__all__ = [
    "Part",
    "Plan",
    "explain_rows",
    "highest",
    "prepare_rows",
    "reasons_for",
    "score_chunk",
    "score_file",
]

_REPORT = "report"  # in the metadata of a part: its TransformReport as JSON


@dataclass(frozen=True)
class Part:
    """The scores of one chunk, in a file of the working folder."""

    name: str
    rows: int  # of the chunk
    scored: int  # without those that are left out
    resumed: bool
    report: TransformReport
    n_mistakes: int = 0
    conventions: Conventions | None = None
    drift: Drift = field(default_factory=Drift)


@dataclass(frozen=True)
class Plan:
    """How the chunks of a table are scored.

    Attributes
    ----------
    folder : path
        The working folder.
    model : str
        Digest of the model file.
    ids, keep : tuple of str
        Columns to copy; ids only if the table has them.
    output_kind : str
        Format of the output.
    n_explained, threshold : optional
        Which rows of a chunk may be explained later: this many of the highest scores, or those above a threshold.
    on_error : {"fail", "skip", "null"}
        What to do about cells that cannot be used.
    labelled : str, optional
        The label column, if rows with a label are left out.
    """

    folder: Path
    model: str
    ids: tuple[str, ...]
    keep: tuple[str, ...]
    output_kind: str
    n_explained: int | None = None
    threshold: float | None = None
    on_error: OnError = "fail"
    labelled: str | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns to copy; parts name them by position, so that no name clashes with ours."""
        return tuple(dict.fromkeys([*self.ids, *self.keep]))

    def may_be_explained(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the rows of a chunk that may be explained, which is decided when all chunks are scored."""
        if self.n_explained is not None:
            return np.sort(highest(scores, self.n_explained))
        return np.flatnonzero(scores >= (np.inf if self.threshold is None else self.threshold))

    def scores(self, name: str) -> Path:
        """Return the file with the copied columns, scores and percentiles of a part."""
        return self.folder / f"part-{name}.parquet"

    def rows(self, name: str) -> Path:
        """Return the file with the rows of a part that may be explained."""
        return self.folder / f"rows-{name}.parquet"

    def mistakes(self, name: str) -> Path:
        """Return the file with the rows of a part that have cells that cannot be used."""
        return self.folder / f"mistakes-{name}.parquet"

    def reasons(self, name: str, rows: NDArray[np.int64]) -> Path:
        """Return the file with the reasons of some rows of a part."""
        return self.folder / f"reasons-{hashlib.sha256(name.encode() + rows.tobytes()).hexdigest()}.parquet"


def score_chunk(model: TableModel, chunk: Chunk, plan: Plan) -> Part:
    """Score a chunk into the working folder, unless its scores already exist."""
    table = chunk()
    model.check_columns(table.columns)
    label = [plan.labelled] if plan.labelled else []
    for column in (*plan.keep, *label):
        if column not in table.columns:
            use = "keep" if column in plan.keep else "look for labels in"
            available = ", ".join(table.columns[:20])
            raise ValueError(
                f"cannot {use} column {column!r}: not in the table; available columns: {available}"
            )
    kept = {name: str(i) for i, name in enumerate(plan.kept) if name in table.columns}
    check_types(table.select(list(kept)), plan.output_kind)
    used = [*model.columns, *kept, *label]
    # A row that is skipped is written with all its columns.
    name = _digest(table if plan.on_error == "skip" else table.select(list(dict.fromkeys(used))), plan)
    if plan.scores(name).exists():
        noted = json.loads(pl.read_parquet_metadata(plan.scores(name))[_REPORT])
        report, drift = TransformReport(**noted["report"]), Drift(**noted["drift"])
        return Part(
            name, table.height, noted["scored"], True, report, noted["mistakes"], chunk.conventions, drift
        )
    height = table.height
    with chunk.located():
        done = tolerated(table, partial(prepare_rows, model), plan.on_error)
    table, rows, mistakes = done.rows, done.kept, done.mistakes
    prepared, report = done.result
    if plan.labelled:
        without = np.flatnonzero(~has_verdict(table[plan.labelled], model))
        table, rows, prepared = table[without], rows[without], prepared[without]
    try:
        scores = model.detector.anomaly_score(prepared) if table.height else np.empty(0)
    except NonFiniteScoreError as error:
        raise NonFiniteScoreError(int(rows[error.row]), error.score) from None
    drift = model.reference.drift_of(prepared) if table.height else Drift()
    chosen = plan.may_be_explained(scores)
    # Before the scores: if the scores exist, so do these rows.
    if len(chosen):
        _write(table.select(model.columns)[chosen], plan.rows(name))
    if mistakes.height:
        _write(mistakes, plan.mistakes(name))
    copied = [table[column].alias(position) for column, position in kept.items()]
    found = [
        pl.Series("row", rows, dtype=pl.Int64),
        pl.Series("score", scores),
        pl.Series("percentile", model.percentile(scores)),
    ]
    noted = {
        "report": asdict(report),
        "drift": asdict(drift),
        "scored": len(scores),
        "mistakes": mistakes.height,
    }
    _write(pl.DataFrame([*copied, *found]), plan.scores(name), {_REPORT: json.dumps(noted)})
    return Part(name, height, len(scores), False, report, mistakes.height, chunk.conventions, drift)


def prepare_rows(model: TableModel, rows: pl.DataFrame) -> tuple[Floats, TransformReport]:
    """Return prepared rows, possibly none, and what was unusual about them."""
    if rows.height:
        return model.prepare_with_report(rows)
    return np.empty((0, model.background.shape[1]), dtype=np.float32), TransformReport(0, {}, {})


def score_file(model: TableModel, file: Input, plan: Plan, chunk_rows: int) -> list[Part]:
    """Score the chunks of a file, one after the other."""
    parts: list[Part] = []
    for chunk in file.chunks(chunk_rows):
        try:
            parts.append(score_chunk(model, chunk, plan))
        except NonFiniteScoreError as error:
            raise error.after(sum(part.rows for part in parts)) from None
    return parts


def explain_rows(model: TableModel, name: str, rows: NDArray[np.int64], plan: Plan) -> None:
    """Write the reasons for some rows of a part, unless they already exist."""
    target = plan.reasons(name, rows)
    if target.exists():
        return
    scores = pl.read_parquet(plan.scores(name), columns=["score"], glob=False)["score"].to_numpy()
    table = pl.read_parquet(plan.rows(name), glob=False)[np.searchsorted(plan.may_be_explained(scores), rows)]
    _write(pl.DataFrame({"reasons": pl.Series(model.reasons(table), dtype=pl.String)}), target)


def reasons_for(model: TableModel, table: pl.DataFrame, chosen: NDArray[np.bool_]) -> list[str]:
    """Return the reasons for the chosen rows of a table, and an empty text for the others."""
    found = iter(model.reasons(table.filter(chosen)))
    return [next(found) if row else "" for row in chosen]


def highest(scores: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Return the rows with the n highest scores, the highest first, ties in row order."""
    return np.argsort(-scores, kind="stable")[:n]


def _digest(table: pl.DataFrame, plan: Plan) -> str:
    """Return a digest of everything that the scores of a chunk depend on."""
    settings: Iterable[object] = (
        plan.model, __version__, pl.__version__, plan.ids, plan.keep, plan.n_explained, plan.threshold, plan.on_error,
        plan.labelled,
    )  # fmt: skip
    digest = hashlib.sha256(json.dumps(settings).encode())
    for column in table:
        buffer = io.BytesIO()
        pl.DataFrame([column.rechunk()]).write_ipc_stream(buffer, compat_level=pl.CompatLevel.oldest())
        digest.update(buffer.getbuffer())
    return digest.hexdigest()


def _write(table: pl.DataFrame, path: Path, metadata: dict[str, str] | None = None) -> None:
    with atomic_write(path) as temporary:
        table.write_parquet(temporary, compression="lz4", metadata=metadata)
