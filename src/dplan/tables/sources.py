"""Where tables come from: formats by file name, and the files of a folder or glob pattern."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from dplan.persistence.claim import check_files
from dplan.tables.decoding import uncompressed_name
from dplan.tables.workbooks import WORKBOOKS

__all__ = ["check_not_among", "common_format", "files_of", "format_of_file"]

_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys(WORKBOOKS, "excel"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3", ".duckdb"), "database"),
}
_COMPRESSIBLE = ("csv", "jsonl")
_DUCKDB_MARK = 8, b"DUCK"  # where DuckDB files have their name
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_NOT_IN_FOLDERS = (".txt", ".json")  # notes and settings, more often than tables


def format_of_file(path: Path) -> str:
    """Return "csv", "jsonl", "parquet", "arrow", "excel", "sqlite" or "duckdb", from the name of a file.

    Examples
    --------
    >>> format_of_file(Path("a.csv.gz")), format_of_file(Path("b.parquet"))
    ('csv', 'parquet')
    """
    found = _FORMATS.get(_suffix(path))
    if found is None:
        raise ValueError(
            f"{path.name}: unsupported file type; use .csv, .tsv, .txt or .jsonl (each also with .gz or .zst), "
            ".parquet, .arrow, .feather, .xlsx, .xls, .ods, or a SQLite or DuckDB file"
        )
    return _format_of_database(path) if found == "database" else found


def _suffix(path: Path) -> str:
    """Return the suffix of a file in lower case; of a compressed text file, the one before that of the compression."""
    inner = Path(uncompressed_name(path.name)).suffix
    return inner if _FORMATS.get(inner) in _COMPRESSIBLE else path.suffix.lower()


def _format_of_database(path: Path) -> str:
    if not path.is_file():
        return "duckdb" if path.suffix.lower() == ".duckdb" else "sqlite"
    start, mark = _DUCKDB_MARK
    with path.open("rb") as file:
        return "duckdb" if file.read(start + len(mark))[start:] == mark else "sqlite"


def files_of(source: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the files of a table: a file, those of a folder or glob pattern in the order of their names, or given."""
    if not isinstance(source, str | Path):
        if not source:
            raise FileNotFoundError("no files were given")
        return tuple(map(Path, source))
    path = Path(source)
    if path.is_file():
        check_content(path)
        return (path,)
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if _in_folder(file))
        formats = sorted({format_of_file(file) for file in found})
        if len(formats) > 1:
            raise ValueError(
                f"{source} contains files of several formats ({', '.join(formats)}); choose some with a pattern such "
                f"as '{path / '*'}{found[0].suffix}'"
            )
    elif any(sign in str(source) for sign in "*?["):
        found = sorted(Path(name) for name in glob.glob(str(source), recursive=True))
    else:
        raise FileNotFoundError(f"file not found: {source}")
    if not found:
        raise FileNotFoundError(f"no tables found in {source}")
    return tuple(found)


def check_content(path: Path) -> None:
    """Raise an error if a file only stands for another one."""
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ValueError(f"{path.name} is a Git LFS pointer, not the data; run  git lfs pull")


def _in_folder(path: Path) -> bool:
    """Return whether a file of a folder is one of its tables, and not a note, a marker or a database."""
    suffix = _suffix(path)
    known = suffix in _FORMATS and suffix not in _NOT_IN_FOLDERS
    return path.is_file() and known and not path.name.startswith((".", "_"))


def common_format(name: str, files: Sequence[Path]) -> str:
    """Return the format of files that are read together; they must have the same."""
    formats = sorted({format_of_file(path) for path in files})
    if len(formats) > 1:
        raise ValueError(f"{name} have several formats: {', '.join(formats)}")
    return formats[0]


def check_not_among(source: str | Path, output: Path) -> None:
    """Raise an error if an output is in a folder or matches a pattern, or the next run would read it."""
    if Path(source).is_dir():
        check_files([source], [output])
    elif fnmatch(str(output.absolute()), str(Path(source).absolute())):
        raise ValueError(
            f"{output} matches the input pattern {source}, so the next run would read it; choose another output"
        )
