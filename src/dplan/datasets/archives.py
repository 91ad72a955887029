"""Finding a publisher's files in a folder: plain, gzipped, in a zip, or in a zip within a zip."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RawFile", "find_files"]

_MAX_DEPTH = 4  # folders below the given one that are looked into
_MAX_NESTED_ZIPS = 2
_MAX_BYTES = (
    1 << 30
)  # no file of the four data sets is nearly as large; a file that claims to be is no such file


@dataclass(frozen=True)
class RawFile:
    """A file as its publisher made it, wherever it lies.

    Attributes
    ----------
    name : str
        Its own name, in lower case and without ``.gz``.
    place : str
        Where it lies, for messages: ``covertype.zip/covtype.data.gz``.
    """

    name: str
    place: str
    _path: Path
    _members: tuple[str, ...] = ()  # the way through nested zip archives, if any

    def read(self) -> bytes:
        """Give its bytes, decompressed; a damaged file is a ValueError that says what to do."""
        try:
            data = self._path.read_bytes()
            for member in self._members:
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    data = archive.read(member)
            if self.place.lower().endswith(".gz"):
                with gzip.open(io.BytesIO(data)) as stream:
                    data = stream.read(_MAX_BYTES + 1)
        except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.place} is damaged ({error}): remove it and fetch it again") from error
        if len(data) > _MAX_BYTES:
            raise ValueError(f"{self.place} holds more than {_MAX_BYTES:,} bytes: not what its name says")
        return data


def find_files(folder: Path, names: Collection[str]) -> dict[str, RawFile]:
    """Find files by name in a folder, its subfolders and its zip archives.

    Parameters
    ----------
    folder : pathlib.Path
        Where to look.
    names : collection of str
        Names of the files without ``.gz``; upper and lower case do not matter.

    Returns
    -------
    dict
        Name in lower case → file, for those that are there. A plain file goes before an archived one.
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
                yield from _inside(archive, path, ())
        except zipfile.BadZipFile:
            continue  # not whole yet, or no zip at all; what is missing then is told by name


def _paths(folder: Path, depth: int) -> Iterator[Path]:
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    yield from (entry for entry in entries if entry.is_file())
    if depth > 0:
        for entry in entries:
            if entry.is_dir():
                yield from _paths(entry, depth - 1)


def _inside(archive: zipfile.ZipFile, path: Path, way: tuple[str, ...]) -> Iterator[RawFile]:
    for info in archive.infolist():
        if info.is_dir() or info.file_size > _MAX_BYTES:
            continue
        name = info.filename
        if not name.lower().endswith(".zip"):
            place = "/".join((str(path), *way, name))
            yield RawFile(_plain_name(name.rsplit("/", 1)[-1]), place, path, (*way, name))
        elif len(way) < _MAX_NESTED_ZIPS:
            with zipfile.ZipFile(io.BytesIO(archive.read(info))) as nested:
                yield from _inside(nested, path, (*way, name))


def _plain_name(name: str) -> str:
    return name.lower().removesuffix(".gz")
