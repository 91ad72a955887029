"""Downloading one file so that it is whole or not there: resumed after interruptions, checked, then renamed.

What has arrived lies in ``NAME.part`` beside the target, with the server's mark of the version (its ETag or
date) in ``NAME.part.version``. The next try asks for the rest of that same version; if the server has
another one now, it sends all of it and the part starts over.
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

from dplan._version import __version__
from dplan.exceptions import DownloadError

__all__ = ["DownloadError", "Progress", "download", "sha256_of"]

# Called with the bytes that are there and the bytes in all, None where the server does not say.
Progress = Callable[[int, int | None], None]

_CHUNK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def download(
    url: str,
    target: str | Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    tries: int = 4,
    pause: float = 1.0,
) -> Path:
    """Download a file, or the rest of it.

    Parameters
    ----------
    url : str
        Where it is.
    target : path
        Where it goes. It appears there only when it is whole and, if `sha256` is given, right.
    sha256 : str, optional
        The hexadecimal checksum that it must have.
    progress : callable, optional
        Called as ``progress(bytes_so_far, bytes_in_all_or_None)`` while bytes arrive.
    tries : int, default=4
        How often to ask; each try goes on where the last one broke off.
    pause : float, default=1.0
        Seconds before the second try; doubled before each further one.

    Returns
    -------
    pathlib.Path
        `target`.

    Raises
    ------
    DownloadError
        If the server refuses, the connection keeps breaking, the disk is full or the checksum is wrong.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(tries):
        if attempt > 0:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _fetch_rest(url, part, progress)
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
                f"no space left for {target} after {_size(part):,} bytes: make room and run the same again, "
                "it goes on from there"
            ) from error
    else:
        raise DownloadError(
            f"{url} broke off {tries} times, last with {problem!r}; {_size(part):,} bytes have arrived: "
            "run the same again, it goes on from there"
        ) from problem
    if sha256 is not None and (found := sha256_of(part)) != sha256.lower():
        _remove(part)
        raise DownloadError(
            f"{url} has the sha256 {found}, expected was {sha256}: the download was thrown away; "
            "run the same again, and if it stays wrong the publisher has changed the file"
        )
    os.replace(part, target)
    _version_file(part).unlink(missing_ok=True)
    return target


def sha256_of(path: str | Path) -> str:
    """Give a file's SHA-256 in hexadecimal.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     print(sha256_of(file.name)[:16])
    e3b0c44298fc1c14
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch_rest(url: str, part: Path, progress: Progress | None) -> None:
    """Append what `part` lacks, or start it over where the server cannot or must not go on."""
    headers = {"User-Agent": f"dplan/{__version__}", "Accept-Encoding": "identity"}
    there = _size(part)
    version = _version_file(part).read_text() if there and _version_file(part).is_file() else ""
    if there and version:
        headers |= {"Range": f"bytes={there}-", "If-Range": version}
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{there}":
            return  # all of it had arrived, only the renaming was missing
        _remove(part)
        _fetch_rest(url, part, progress)
        return
    with response:
        goes_on = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {there}-"):
            raise http.client.HTTPException(
                f"asked for bytes from {there}, got {response.headers['Content-Range']}"
            )
        if not goes_on:
            _remove(part)
            there = 0
            # A weak ETag does not promise equal bytes, so nothing may be appended on its word.
            etag = response.headers.get("ETag", "")
            version = response.headers.get("Last-Modified", "") if etag.startswith("W/") or not etag else etag
            _version_file(part).write_text(version)
        length = response.headers.get("Content-Length")
        total = there + int(length) if length is not None else None
        with open(part, "ab") as file:
            while chunk := response.read1(_CHUNK):  # what is there, without waiting for more
                file.write(chunk)
                there += len(chunk)
                if progress is not None:
                    progress(there, total)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and there < total:
            raise http.client.IncompleteRead(b"", total - there)


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
