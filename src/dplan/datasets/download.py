"""Download a data set from its publisher, resumably, and write the prepared file.

Partial downloads are stored in ``NAME.part`` next to the target, with the server's version (its ETag or date) in
``NAME.part.version``. The next attempt requests the rest of the same version; if the server has a new version, it sends
the whole file and the download starts over.

Why not pooch: it starts over after every interruption and limits neither time nor size.
"""

import errno
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import polars as pl

from dplan._version import __version__
from dplan.datasets.loading import Dataset, data_home, from_source
from dplan.datasets.publishers import read_raw
from dplan.datasets.registry import source_of
from dplan.exceptions import DownloadError
from dplan.persistence.atomic import atomic_write

__all__ = ["DownloadError", "Progress", "download", "fetch", "prepare", "sha256_of"]

# Called with the bytes received and the total, or None if the server does not send it.
Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte
_MAX_BYTES = 1 << 30  # the largest archive has 60 MB
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def fetch(
    name: str,
    home: str | Path | None = None,
    *,
    mirror: str | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Download a data set from its publisher and prepare it.

    Parameters
    ----------
    name : {"annthyroid", "har", "covertype"}
        The data set. The publisher of UNSW-NB15 requires a form; the error says what to do by hand.
    home : path, optional
        The folder of the data sets; default ``$DPLAN_DATA_HOME``, else the platform's cache folder.
    mirror : str, optional
        The address of another folder that has the publisher's archive.
    sha256 : str, optional
        The checksum that the archive must have, if you know it.
    progress : callable, optional
        Called as ``progress(bytes_received, bytes_in_total_or_None)``.

    Returns
    -------
    Dataset
        The prepared data set.
    """
    source = source_of(name)
    folder = Path(home) if home is not None else data_home()
    if not source.page:
        raise ValueError(f"{name!r} comes with the package; there is nothing to download")
    if not source.archive:
        raise DownloadError(by_hand(name))
    base, _, file = source.archive.rpartition("/")
    url = f"{(mirror or base).rstrip('/')}/{file}"
    archive = folder / "downloads" / name / file
    if not archive.is_file() or sha256 not in (None, sha256_of(archive)):
        try:
            download(url, archive, sha256=sha256, progress=progress)
        except DownloadError as error:
            raise DownloadError(f"{error}\n{by_hand(name)}") from error
    try:
        return prepare(name, archive.parent, folder)
    except (ValueError, FileNotFoundError) as error:
        archive.unlink()
        raise DownloadError(f"the file at {url} is not {name} and was deleted: {error}") from error


def prepare(name: str, source: str | Path, home: str | Path | None = None) -> Dataset:
    """Read the publisher's files from a folder and write the prepared file into the data home.

    Parameters
    ----------
    name : {"unsw_nb15", "annthyroid", "har", "covertype"}
        The data set.
    source : path
        The folder with the publisher's files: plain, gzipped or in zip archives.
    home : path, optional
        The folder of the data sets; default ``$DPLAN_DATA_HOME``, else the platform's cache folder.

    Returns
    -------
    Dataset
        The prepared data set.
    """
    folder = Path(home) if home is not None else data_home()
    table = read_raw(name, source)
    target = folder / f"{name}.parquet"
    dataset = from_source(source_of(name), table, target)  # checks the classes before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_write(target) as temporary:
            table.write_parquet(temporary, compression="zstd", compression_level=10)
    except pl.exceptions.PolarsError as error:  # also raised if the disk is full
        raise OSError(f"cannot write {target}: {error}") from error
    return dataset


def by_hand(name: str) -> str:
    """Return instructions for getting a data set without `fetch`.

    Examples
    --------
    >>> print(by_hand("annthyroid"))
    To do it by hand, download it from https://archive.ics.uci.edu/dataset/102/thyroid+disease
    and run `dplan data prepare annthyroid --from FOLDER` with the folder that it is in.
    """
    page = source_of(name).page
    if name == "unsw_nb15":
        return (
            f"The publisher of UNSW-NB15 requires a form before the download: open {page},\n"
            "download UNSW_NB15_training-set.csv and UNSW_NB15_testing-set.csv\n"
            "from the folder 'Training and Testing Sets',\n"
            f"and run `dplan data prepare {name} --from FOLDER` with the folder that they are in."
        )
    return (
        f"To do it by hand, download it from {page}\n"
        f"and run `dplan data prepare {name} --from FOLDER` with the folder that it is in."
    )


def download(
    url: str,
    target: str | Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    max_attempts: int = 4,
    retry_delay: float = 1.0,
    max_bytes: int = _MAX_BYTES,
) -> Path:
    """Download a file, or resume its download.

    Parameters
    ----------
    url : str
        Its address.
    target : path
        The file to write. It is created only when the download is complete and, if `sha256` is given, correct.
    sha256 : str, optional
        The expected hexadecimal checksum.
    progress : callable, optional
        Called as ``progress(bytes_received, bytes_in_total_or_None)`` while bytes arrive.
    max_attempts : int, default=4
        Maximum number of attempts; each resumes where the last one stopped.
    retry_delay : float, default=1.0
        Seconds before the second attempt, doubled before each further one.
    max_bytes : int, default=2**30
        Raise an error for larger files.

    Returns
    -------
    pathlib.Path
        `target`.

    Raises
    ------
    DownloadError
        If the server returns an error, the connection keeps failing, the file is too large, the disk is full or the
        checksum is wrong.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(max_attempts):
        if attempt > 0:
            time.sleep(retry_delay * 2 ** (attempt - 1))
        try:
            _fetch_rest(url, part, progress, max_bytes)
            break
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500:
                raise DownloadError(f"{url} answered {error.code} {error.reason}") from error
            problem: Exception = error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = error
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            raise DownloadError(
                f"no space left for {target} after {_size(part):,} bytes; free some space and run the same command "
                "again to resume"
            ) from error
    else:
        raise DownloadError(
            f"the download of {url} failed {max_attempts} times, last with {problem!r}; {_size(part):,} bytes "
            "have arrived; run the same command again to resume"
        ) from problem
    if sha256 is not None and (found := sha256_of(part)) != sha256.lower():
        _remove(part)
        raise DownloadError(
            f"{url} has the sha256 {found}, expected {sha256}: the download was deleted. Run the same command again; "
            "if the checksum is still wrong, the publisher has changed the file"
        )
    os.replace(part, target)
    _version_file(part).unlink(missing_ok=True)
    return target


def sha256_of(path: str | Path) -> str:
    """Return a file's SHA-256 in hexadecimal.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     print(sha256_of(file.name)[:16])
    e3b0c44298fc1c14
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch_rest(url: str, part: Path, progress: Progress | None, max_bytes: int) -> None:
    """Append the rest of the file to `part`, or start over if the download cannot be resumed."""
    headers = {"User-Agent": f"dplan/{__version__}", "Accept-Encoding": "identity"}
    there = _size(part)
    version = _version_file(part).read_text() if there and _version_file(part).is_file() else ""
    if there and version:
        headers |= {"Range": f"bytes={there}-", "If-Range": version}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or "Range" not in headers:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{there}":
            return  # complete, only not renamed yet
        _remove(part)
        _fetch_rest(url, part, progress, max_bytes)  # this time without a range
        return
    with response:
        resumes = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumes and not response.headers.get("Content-Range", "").startswith(f"bytes {there}-"):
            raise http.client.HTTPException(
                f"asked for bytes from {there}, got {response.headers['Content-Range']}"
            )
        if not resumes:
            _remove(part)
            there = 0
            # A weak ETag does not guarantee identical bytes, so it cannot be used to resume.
            etag = response.headers.get("ETag", "")
            version = response.headers.get("Last-Modified", "") if etag.startswith("W/") or not etag else etag
            _version_file(part).write_text(version)
        length = response.headers.get("Content-Length")
        total = there + int(length) if length is not None else None
        _check_size(url, part, total or there, max_bytes)
        with open(part, "ab") as file:
            while chunk := response.read1(_CHUNK):  # returns what has arrived, without waiting for more
                there += len(chunk)
                _check_size(url, part, there, max_bytes)
                file.write(chunk)
                if progress is not None:
                    progress(there, total)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and there < total:
            raise http.client.IncompleteRead(b"", total - there)


def _check_size(url: str, part: Path, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        _remove(part)
        raise DownloadError(f"{url} has more than {max_bytes:,} bytes: the download was stopped and deleted")


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
