"""Tables in many Parquet files: which files they are, and a folder of results."""

from __future__ import annotations

import glob
import shutil
from fnmatch import fnmatch
from pathlib import Path

import polars as pl

from dplan._version import __version__
from dplan.persistence.atomic import replace_folder
from dplan.persistence.claim import check_inputs

__all__ = ["check_folder", "parts_of", "write_folder"]

_WRITTEN_BY = "dplan score"  # in the metadata of each Parquet file of a folder, with the version


def parts_of(table: str, output: Path | None = None) -> list[Path] | None:
    """Return the Parquet files of a folder or glob pattern, or None if `table` names a single file.

    Parameters
    ----------
    table : str
        What was given.
    output : path, optional
        What will be written; it must not be, contain or lie in the folder, nor match the pattern, or the next run
        would read it.

    Examples
    --------
    >>> parts_of("payments.csv") is None
    True
    """
    if Path(table).is_dir():
        found = sorted(Path(table).glob("*.parquet"))
        if output is not None:
            check_inputs(output, [table])
    elif any(sign in table for sign in "*?[") and not Path(table).exists():
        found = sorted(Path(name) for name in glob.glob(table, recursive=True))
        if output is not None and fnmatch(str(output.absolute()), str(Path(table).absolute())):
            raise ValueError(f"{output} matches the input {table}, so the next run would read it: rename it")
    else:
        return None
    if not found:
        raise FileNotFoundError(f"there are no Parquet files in {table}")
    for path in found:
        if path.suffix != ".parquet":
            raise ValueError(f"{path} is not a Parquet file; a folder or pattern must hold nothing else")
    return found


def check_folder(output: Path | None, inputs: list[Path], top: int | None) -> None:
    """Raise if a folder of results cannot be written: files that are not ours would be lost."""
    if output is None:
        raise ValueError("a folder cannot be written to standard output")
    if top:
        raise ValueError("--top gives one short list: name one output file, such as top.csv")
    names = [path.name for path in inputs]
    if len(set(names)) < len(names):
        raise ValueError("two parts have the same name: write them into one output file")
    for path in output.iterdir() if output.is_dir() else ():
        if not _is_ours(path):
            raise ValueError(
                f"the folder {output} holds {path.name}, which dplan score did not write: choose another folder"
            )


def write_folder(frames: list[pl.LazyFrame], names: list[str], output: Path | None, scratch: Path) -> None:
    """Write one Parquet file per part; the folder is the old one or the new one, and keeps no file of the old."""
    assert output is not None
    new = scratch / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, frame in zip(names, frames, strict=True):
        frame.sink_parquet(new / name, metadata={_WRITTEN_BY: __version__})
    replace_folder(new, output)


def _is_ours(path: Path) -> bool:
    try:
        return _WRITTEN_BY in pl.read_parquet_metadata(path)
    except (OSError, pl.exceptions.PolarsError):
        return False
