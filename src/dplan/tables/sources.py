"""Where tables come from: formats by file name, and the files of a folder or glob pattern."""

from __future__ import annotations

import glob
from fnmatch import fnmatch
from pathlib import Path

from dplan.persistence.claim import check_inputs
from dplan.tables.decoding import uncompressed_name

__all__ = ["files_of", "kind_of_file"]

_TEXT = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
}
_BINARY = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    ".xlsx": "excel",
    **dict.fromkeys((".db", ".sqlite", ".sqlite3", ".duckdb"), "database"),
}
_DUCKDB_MARK = 8, b"DUCK"  # where DuckDB files have their name
_NOT_IN_FOLDERS = (".txt", ".json")  # notes and settings, more often than tables


def kind_of_file(path: Path) -> str:
    """Return "csv", "jsonl", "parquet", "arrow", "excel", "sqlite" or "duckdb", from the name of a file.

    Examples
    --------
    >>> kind_of_file(Path("a.csv.gz")), kind_of_file(Path("b.parquet"))
    ('csv', 'parquet')
    """
    kind = _TEXT.get(Path(uncompressed_name(path.name)).suffix) or _BINARY.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"{path.name}: unsupported file type; use .csv, .tsv, .txt or .jsonl (each also with .gz or .zst), "
            ".parquet, .arrow, .feather, .xlsx, or a SQLite or DuckDB file"
        )
    return _kind_of_database(path) if kind == "database" else kind


def files_of(table: str | Path, output: Path | None = None) -> list[Path] | None:
    """Return the files of a folder or glob pattern in the order of their names, or None if it is a single file.

    Parameters
    ----------
    table : str or path
        A file, a folder or a glob pattern.
    output : path, optional
        The output, which must not overlap with the folder or match the pattern, or the next run would read it.

    Examples
    --------
    >>> files_of("payments.csv") is None
    True
    """
    pattern, folder = str(table), Path(table)
    if folder.is_dir():
        if output is not None:
            check_inputs(output, [folder])
        found = sorted(path for path in folder.iterdir() if _in_folder(path))
        kinds = sorted({kind_of_file(path) for path in found})
        if len(kinds) > 1:
            raise ValueError(
                f"{table} contains files of several formats ({', '.join(kinds)}); choose some with a pattern such as "
                f"'{folder / '*'}{found[0].suffix}'"
            )
    elif any(sign in pattern for sign in "*?[") and not folder.exists():
        found = sorted(Path(name) for name in glob.glob(pattern, recursive=True))
        if output is not None and fnmatch(str(output.absolute()), str(folder.absolute())):
            raise ValueError(
                f"{output} matches the input pattern {table}, so the next run would read it; choose another output"
            )
        for path in found:
            kind_of_file(path)
    else:
        return None
    if not found:
        raise FileNotFoundError(f"no tables found in {table}")
    return found


def _in_folder(path: Path) -> bool:
    """Return whether a file of a folder is one of its tables, and not a note, a marker or a database."""
    suffix = Path(uncompressed_name(path.name)).suffix
    known = {*_TEXT, *_BINARY} - {*_NOT_IN_FOLDERS}
    return path.is_file() and suffix in known and not path.name.startswith((".", "_"))


def _kind_of_database(path: Path) -> str:
    if not path.is_file():
        return "duckdb" if path.suffix.lower() == ".duckdb" else "sqlite"
    start, mark = _DUCKDB_MARK
    with path.open("rb") as file:
        return "duckdb" if file.read(start + len(mark))[start:] == mark else "sqlite"
