"""Score Spark data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dplan.scoring.scorer import AlertPolicy, Batch, Scorer, loaded
from dplan.tables.writing import output_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["score"]

_OURS = {
    "score": "double",
    "percentile": "double",
    "novelty": "double",
    "alert": "boolean",
    "reasons": "string",
}


def score(
    frame: DataFrame,
    model: str | Path | bytes,
    *,
    keep: Sequence[str] | None = None,
    threshold: float | None = None,
    explain: bool = False,
    novelty: bool = False,
) -> DataFrame:
    """Score a Spark data frame, on the executors.

    The scores are those of ``dplan score``, to the last bit. Rows travel as Arrow batches, so numbers, text, dates,
    timestamps (in UTC) and missing values arrive as they are. Each Python worker loads the model once; if a worker
    dies, Spark scores its partition again. dplan must be installed on the executors.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    model : path or bytes
        The model file, which is sent to the executors.
    keep : sequence of str, optional
        Columns to copy; all by default.
    threshold : float, optional
        Make rows with at least this score alerts; None for the model's threshold.
    explain : bool, default=False
        Add the reasons for each alert.
    novelty : bool, default=False
        Add how unlike the training rows each row is, from 0 to 100, whatever the labels say.

    Returns
    -------
    pyspark.sql.DataFrame
        The copied columns, "score", "percentile", "novelty" if asked for, "alert" and, with `explain`, "reasons". If a
        copied column has one of these names, ours is called "dplan_score", and so on. As always in Spark, rows are
        scored when they are needed.
    """
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    found = loaded(content)
    found.check_columns(frame.columns)
    kept = list(frame.columns if keep is None else dict.fromkeys(keep))
    for name in kept:
        if name not in frame.columns:
            raise ValueError(f"cannot keep column {name!r}: not in the frame")
    if novelty:
        found.detector._check_explorers()
    asked = {"reasons": explain, "novelty": novelty}
    names = output_names(kept, [ours for ours in _OURS if asked.get(ours, True)])
    schema = frame.select([f"`{_quoted(name)}`" for name in kept]).schema
    for ours, name in names.items():
        schema = schema.add(name, _OURS[ours])
    needed = [f"`{_quoted(name)}`" for name in dict.fromkeys([*kept, *found.columns])]
    work = partial(_scored, content=content, kept=kept, names=names, threshold=threshold)
    return frame.select(needed).mapInArrow(work, schema)


def _scored(
    batches: Iterable[Any], content: bytes, kept: list[str], names: dict[str, str], threshold: float | None
) -> Iterator[Any]:
    """Score Arrow batches, in a Python worker of an executor."""
    scorer = Scorer(loaded(content), alerts=AlertPolicy(threshold), novelty="novelty" in names)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        table = pl.DataFrame(pl.from_arrow(batch.select(scorer.model.columns)))
        ours = scorer.columns(scorer.score(Batch(table)), explain="reasons" in names)
        batch = batch.select(kept)
        for values in ours:
            # Spark's own type of strings; that of polars is another.
            array = values.to_arrow(compat_level=pl.CompatLevel.oldest())
            array = array.cast("string") if values.name == "reasons" else array
            batch = batch.append_column(names[values.name], array)
        yield batch


def _quoted(name: str) -> str:
    return name.replace("`", "``")
