"""Find the publishers' files, also in archives, and read them into one table per data set.

Row counts are checked, so that a truncated file is never mistaken for a complete one.
"""

import gzip
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dplan.text import first_line

__all__ = ["RAW_FILES", "RawFile", "find_files", "missing_raw_files", "read_raw"]

_MAX_DEPTH = 4  # levels of subfolders that are searched
# What zipfile and gzip raise for damaged files, for encrypted ones and for unknown kinds of compression.
UNREADABLE = (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile, RuntimeError)

# The publishers' names of the files that make up each data set.
RAW_FILES: Mapping[str, tuple[str, ...]] = {
    "unsw_nb15": ("UNSW_NB15_training-set.csv", "UNSW_NB15_testing-set.csv"),
    "annthyroid": ("ann-train.data", "ann-test.data"),
    "har": ("features.txt", "activity_labels.txt", "X_train.txt", "y_train.txt", "X_test.txt", "y_test.txt"),
    "covertype": ("covtype.data",),
}

# The number of rows of each file; it also identifies the two files of UNSW-NB15.
_ROWS = {
    "ann-train.data": 3_772,
    "ann-test.data": 3_428,
    "train": 7_352,
    "test": 2_947,
    "covtype.data": 581_012,
}
_UNSW_PARTITIONS = {175_341: "training", 82_332: "testing"}
_UNSW_COLUMNS = 45
_UNSW_FLOATS = {
    *("dur", "rate", "sload", "dload", "sinpkt", "dinpkt"),
    *("sjit", "djit", "tcprtt", "synack", "ackdat"),
}
_UNSW_TEXTS = {"proto", "service", "state", "attack_cat"}

_ANNTHYROID_COLUMNS = (
    *("age", "sex", "on_thyroxine", "query_on_thyroxine", "on_antithyroid_medication", "sick", "pregnant"),
    *("thyroid_surgery", "I131_treatment", "query_hypothyroid", "query_hyperthyroid", "lithium", "goitre"),
    *("tumor", "hypopituitary", "psych", "TSH", "T3", "TT4", "T4U", "FTI", "class"),
)
_ANNTHYROID_FLOATS = {"age", "TSH", "T3", "TT4", "T4U", "FTI"}
_ANNTHYROID_CLASSES = {1: "hypothyroid", 2: "subnormal", 3: "normal"}

_COVERTYPE_MEASURES = (
    *("Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"),
    *("Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"),
    "Horizontal_Distance_To_Fire_Points",
)
_COVERTYPE_BYTES = {"Slope", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"}

Schema = dict[str, type[pl.DataType]]


@dataclass(frozen=True)
class RawFile:
    """A publisher's file: plain, gzipped or in a zip archive.

    Attributes
    ----------
    name : str
        Its own name, in lower case and without ``.gz``.
    place : str
        Where it is, for messages: ``covertype.zip/covtype.data.gz``.
    """

    name: str
    place: str
    _path: Path
    _member: str = ""  # of the zip archive, if it is in one

    def read(self) -> bytes:
        """Return its decompressed bytes, or raise a ValueError with advice."""
        try:
            if self._member:
                with zipfile.ZipFile(self._path) as archive:
                    data = archive.read(self._member)
            else:
                data = self._path.read_bytes()
            return gzip.decompress(data) if self.place.lower().endswith(".gz") else data
        except UNREADABLE as error:
            if isinstance(error, RuntimeError) and "encrypted" in str(error):
                raise ValueError(f"{self.place} is encrypted: extract the archive first") from error
            raise ValueError(f"{self.place} is damaged ({error}); delete it and download it again") from error


def find_files(folder: Path, names: Collection[str]) -> dict[str, RawFile]:
    """Find files by name in a folder, its subfolders and its zip archives.

    Parameters
    ----------
    folder : pathlib.Path
        Where to look.
    names : collection of str
        Names of the files without ``.gz``; case does not matter.

    Returns
    -------
    dict
        Name in lower case → file, for those that exist. A plain file is preferred to an archived one.
    """
    wanted = {name.lower() for name in names}
    found: dict[str, RawFile] = {}
    for file in _walk(folder):
        if file.name in wanted:
            found.setdefault(file.name, file)
    return found


def _walk(folder: Path) -> Iterator[RawFile]:
    zips = []
    for path in _paths(folder, _MAX_DEPTH):
        if path.suffix.lower() == ".zip":
            zips.append(path)
        else:
            yield RawFile(_plain_name(path.name), str(path), path)
    for path in zips:
        try:
            with zipfile.ZipFile(path) as archive:
                members = [info.filename for info in archive.infolist() if not info.is_dir()]
        except UNREADABLE:
            continue  # incomplete or not a zip file; the files in it count as missing
        for member in members:
            yield RawFile(_plain_name(member.rsplit("/", 1)[-1]), f"{path}/{member}", path, member)


def _paths(folder: Path, depth: int) -> Iterator[Path]:
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    yield from (entry for entry in entries if entry.is_file())
    if depth > 0:
        for entry in entries:
            if entry.is_dir():
                yield from _paths(entry, depth - 1)


def _plain_name(name: str) -> str:
    return name.lower().removesuffix(".gz")


def missing_raw_files(name: str, folder: Path) -> list[str]:
    """List the missing files of a data set in a folder; for UNSW-NB15 one of the two is enough.

    Examples
    --------
    >>> missing_raw_files("annthyroid", Path("no-such-folder"))
    ['ann-train.data', 'ann-test.data']
    """
    names = RAW_FILES.get(name, ())
    found = find_files(folder, names)
    if name == "unsw_nb15" and found:
        return []
    return [file for file in names if file.lower() not in found]


def read_raw(name: str, folder: str | Path) -> pl.DataFrame:
    """Read a data set from its publisher's files.

    Parameters
    ----------
    name : {"unsw_nb15", "annthyroid", "har", "covertype"}
        The data set.
    folder : path
        Where its files are: plain, gzipped or in a zip archive, also in subfolders.

    Returns
    -------
    polars.DataFrame
        One row per instance, with the columns of the prepared file.
    """
    if name not in RAW_FILES:
        raise ValueError(f"{name!r} has no files to prepare; choose from {', '.join(RAW_FILES)}")
    folder = Path(folder)
    missing = missing_raw_files(name, folder)
    if missing:
        raise FileNotFoundError(
            f"missing files of {name} in {folder}: {', '.join(missing)} (plain, .gz or in an unencrypted .zip)"
        )
    return _READERS[name](find_files(folder, RAW_FILES[name]))


def _read_unsw_nb15(files: Mapping[str, RawFile]) -> pl.DataFrame:
    tables: dict[str, pl.DataFrame] = {}
    for file in files.values():
        data = file.read().removeprefix(b"\xef\xbb\xbf")
        names = data.split(b"\n", 1)[0].decode().strip().split(",")
        if len(names) != _UNSW_COLUMNS or "attack_cat" not in names:
            raise ValueError(
                f"{file.place} has {len(names)} columns instead of {_UNSW_COLUMNS}: it is not one of "
                "the two official partitions (the four raw UNSW-NB15_1.csv to _4.csv are another edition)"
            )
        schema: Schema = {
            name: pl.Float64 if name in _UNSW_FLOATS else pl.String if name in _UNSW_TEXTS else pl.Int64
            for name in names
        }
        table = _csv(data, schema, file.place, has_header=True)
        if table.height not in _UNSW_PARTITIONS:
            expected = " and ".join(f"{rows:,}" for rows in _UNSW_PARTITIONS)
            raise ValueError(
                f"{file.place} has {table.height:,} rows, the official partitions have {expected}: "
                "the file is truncated or another edition"
            )
        partition = _UNSW_PARTITIONS[table.height]
        if partition in tables:
            raise ValueError(
                f"{file.place} is the {partition} partition, and so is another file in the same folder"
            )
        tables[partition] = table.with_columns(pl.lit(partition).alias("partition"))
    return pl.concat([tables[partition] for partition in ("testing", "training") if partition in tables])


def _read_annthyroid(files: Mapping[str, RawFile]) -> pl.DataFrame:
    schema: Schema = {
        name: pl.Float64 if name in _ANNTHYROID_FLOATS else pl.Int8 for name in _ANNTHYROID_COLUMNS
    }
    parts = []
    for name in ("ann-train.data", "ann-test.data"):
        table = _whitespace_table(files[name], schema)
        _check_rows(files[name], table.height, _ROWS[name])
        parts.append(table)
    return pl.concat(parts).with_columns(
        pl.col("class").replace_strict(_ANNTHYROID_CLASSES, return_dtype=pl.String)
    )


def _read_har(files: Mapping[str, RawFile]) -> pl.DataFrame:
    names = _distinct([line.split(maxsplit=1)[1] for line in _lines(files["features.txt"])])
    activities = dict(line.split(maxsplit=1) for line in _lines(files["activity_labels.txt"]))
    parts = []
    for part in ("train", "test"):
        table = _whitespace_table(files[f"x_{part}.txt"], dict.fromkeys(names, pl.Float64))
        labels = _lines(files[f"y_{part}.txt"])
        _check_rows(files[f"x_{part}.txt"], table.height, _ROWS[part])
        _check_rows(files[f"y_{part}.txt"], len(labels), _ROWS[part])
        activity = pl.Series("activity", labels).replace_strict(activities, return_dtype=pl.String)
        parts.append(table.cast(pl.Float32).with_columns(activity))
    return pl.concat(parts)


def _read_covertype(files: Mapping[str, RawFile]) -> pl.DataFrame:
    file = files["covtype.data"]
    schema: Schema = {
        name: pl.UInt8 if name in _COVERTYPE_BYTES else pl.Int16 for name in _COVERTYPE_MEASURES
    }
    schema |= {f"Wilderness_Area_{i}": pl.UInt8 for i in range(4)}
    schema |= {f"Soil_Type_{i}": pl.UInt8 for i in range(40)}
    schema["cover_type"] = pl.Int8
    table = _csv(file.read(), schema, file.place, has_header=False)
    _check_rows(file, table.height, _ROWS["covtype.data"])
    return table


_READERS: Mapping[str, Callable[[Mapping[str, RawFile]], pl.DataFrame]] = {
    "unsw_nb15": _read_unsw_nb15,
    "annthyroid": _read_annthyroid,
    "har": _read_har,
    "covertype": _read_covertype,
}


def _csv(data: bytes, schema: Schema, place: str, *, has_header: bool, separator: str = ",") -> pl.DataFrame:
    try:
        return pl.read_csv(data, schema=schema, has_header=has_header, separator=separator)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{place} cannot be read: {first_line(error)}") from error


def _whitespace_table(file: RawFile, schema: Schema) -> pl.DataFrame:
    """Read numbers separated by any number of spaces, one row per line."""
    lines = [b" ".join(line.split()) for line in file.read().splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        if line.count(b" ") != len(schema) - 1:
            raise ValueError(
                f"{file.place}, line {number}: {line.count(b' ') + 1} values instead of {len(schema)}; "
                "the file is truncated or another edition"
            )
    return _csv(b"\n".join(lines), schema, file.place, has_header=False, separator=" ")


def _lines(file: RawFile) -> list[str]:
    return [line.strip() for line in file.read().decode("utf-8").splitlines() if line.strip()]


def _distinct(names: list[str]) -> list[str]:
    """Make repeated names distinct, which HAR has."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def _check_rows(file: RawFile, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(
            f"{file.place} has {found:,} rows, not {expected:,}: the file is truncated or another edition"
        )
