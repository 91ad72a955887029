"""What the review reads, as files: the process that scores and trains opens them itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dplan.columns.frames import as_frame
from dplan.review.rows import TableFile
from dplan.tables.input import Input
from dplan.tables.model import TableModel

__all__ = ["as_file", "as_model_file"]


def as_model_file(model: Any, folder: Path) -> tuple[Path | None, TableModel | None]:
    """Return the file of a model, written to a folder if it is in memory, and the model."""
    if model is None:
        return None, None
    if isinstance(model, str | Path):
        return Path(model), TableModel.load(model)
    fitted = model.to_model() if hasattr(model, "to_model") else model
    if not isinstance(fitted, TableModel):
        raise TypeError(
            f"model must be a TableModel, a TableDetector, a model file or None, got {type(model).__name__}; "
            "fit one with dplan fit or TableDetector"
        )
    fitted.save(folder / "model.dplan")
    return folder / "model.dplan", fitted


def as_file(
    table: Any,
    ids: Sequence[str] | None,
    model: TableModel | None,
    folder: Path,
) -> TableFile:
    """Return a table as a file, written to a folder if it is in memory; ids are the model's unless given."""
    chosen = tuple(ids) if ids is not None else None
    if isinstance(table, Input):
        found = table
    elif isinstance(table, str | Path):
        found = Input(table).like(model)
    else:
        as_frame(table).write_parquet(folder / "table.parquet", compression="lz4")
        found = Input(folder / "table.parquet").like(model)
    if not found.is_single:
        raise ValueError(f"{found.name}: a review needs a single file")
    return TableFile(found, _ids(chosen, model, found))


def _ids(chosen: tuple[str, ...] | None, model: TableModel | None, table: Input) -> tuple[str, ...]:
    """Return the columns that identify rows: as given, or those of the model that the table has."""
    if chosen is not None:
        return chosen
    wanted = () if model is None else tuple(model.summary.get("ids", ()))
    if not wanted:
        return ()
    _, _, first = next(TableFile(table).chunks(100))
    return wanted if all(name in first.columns for name in wanted) else ()
