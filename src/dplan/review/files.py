"""What the review reads, as files: the process that scores and trains opens them itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dplan.columns.frames import as_frame
from dplan.review.rows import TableFile
from dplan.tables.chunks import ReadOptions
from dplan.tables.model import TableModel
from dplan.tables.sources import kind_of_file

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
    options: ReadOptions | None = None,
) -> TableFile:
    """Return a table as a file, written to a folder if it is in memory; ids are the model's unless given."""
    read = options or (ReadOptions() if model is None else model.read_options)
    chosen = tuple(ids) if ids is not None else None
    if isinstance(table, str | Path):
        path = Path(table)
        if not path.is_file():
            raise FileNotFoundError(f"file not found: {path}")
        return TableFile(path, kind_of_file(path), _ids(chosen, model, path, read), read)
    frame = as_frame(table)
    path = folder / "table.parquet"
    frame.write_parquet(path, compression="lz4")
    return TableFile(path, "parquet", _ids(chosen, model, path, read), read)


def _ids(
    chosen: tuple[str, ...] | None, model: TableModel | None, path: Path, options: ReadOptions
) -> tuple[str, ...]:
    """Return the columns that identify rows: as given, or those of the model that the table has."""
    if chosen is not None:
        return chosen
    wanted = () if model is None else tuple(model.summary.get("ids", ()))
    if not wanted:
        return ()
    _, _, first = next(TableFile(path, kind_of_file(path), (), options).chunks(100))
    return wanted if all(name in first.columns for name in wanted) else ()
