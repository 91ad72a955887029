"""Model files: a JSON description and arrays in one file, with a format version; no code is executed.

It is a safetensors file, which any safetensors reader can open: eight bytes give the length of a JSON header, which
lists the type, shape and offsets of each array; the arrays follow. safetensors has no checksum, so the header's
metadata starts, at a fixed position, with a SHA-256 of the whole file, computed with zeros in its place. The metadata
also contain the description. All declared sizes are checked against the actual bytes. Detectors and tables define the
meaning of the description and the arrays, and check them.
"""

import hashlib
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dplan._version import __version__
from dplan.exceptions import ModelFileError
from dplan.persistence.atomic import store
from dplan.text import one_line

__all__ = [
    "FORMAT",
    "Contents",
    "Tensors",
    "model_file_errors",
    "packed",
    "read",
    "read_bytes",
    "write",
]

FORMAT = 1  # increased when older versions cannot read new files; all earlier formats stay supported

Tensors = dict[str, NDArray[Any]]

_PREFIX = b'{"__metadata__":{"sha256":"'
_DIGEST = slice(8 + len(_PREFIX), 8 + len(_PREFIX) + 64)
_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}

# Far larger than any model of this package, and small enough to read at once.
_MAX_HEADER, _MAX_FILE = 64 * 2**20, 2**30
_MAX_DIMENSIONS = 8


@dataclass(frozen=True)
class Contents:
    """The contents of a model file.

    Attributes
    ----------
    name : str
        Name of the file, for messages.
    description : dict
        JSON values.
    tensors : dict of ndarray
        Arrays of float32, float64, int32 or int64.
    digest : str
        SHA-256 of the file.
    """

    name: str
    description: dict[str, Any]
    tensors: Tensors
    digest: str

    @property
    def package(self) -> str:
        """Version of this package that wrote the file."""
        return str(self.description["package"])


def packed(description: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a model file."""
    text = json.dumps(
        {"format": FORMAT, "package": __version__, **description}, separators=(",", ":"), allow_nan=False
    )
    return bytes(_packed(tensors, {"dplan": text}))


def write(path: str | Path, description: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write a model file atomically; an existing one is replaced."""
    store(path, packed(description, tensors))


def read(source: str | Path | bytes) -> Contents:
    """Read a model file from a path or bytes; raise ModelFileError if it is damaged or from a newer version."""
    tensors, metadata, digest = _unpacked(source)
    name = "the model" if isinstance(source, bytes) else Path(source).name
    with model_file_errors(name):
        description = _parsed(metadata["dplan"])
        if not isinstance(description, dict):
            raise ValueError("the description is not a JSON object")
        written, package = description["format"], description["package"]
        if type(written) is int and written > FORMAT:
            newer = one_line(f"dplan {package} (format {written})")
            raise ModelFileError(
                f"{name} was written by {newer}; "
                f"dplan {__version__} reads formats up to {FORMAT}. Upgrade dplan"
            )
        if written != FORMAT:
            raise ValueError(f"unknown format {written!r}")
        return Contents(name, description, tensors, digest)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a model file; if something else is there, raise ModelFileError without reading all of it.

    What lies in a folder may be a pipe, which would have to be waited for, or a device, which never ends.
    """
    at_once = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{path.name} is not a regular file")
        return bytes(_checked(file, found.st_size, path.name))


@contextmanager
def model_file_errors(name: str) -> Iterator[None]:
    """Convert errors raised by invalid contents into a ModelFileError with the name of the file.

    Examples
    --------
    >>> with model_file_errors("m.dplan"):
    ...     {}["weights_"]
    Traceback (most recent call last):
    dplan.exceptions.ModelFileError: m.dplan is not a valid model file: 'weights_' is missing
    """
    try:
        yield
    except ModelFileError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelFileError(f"{name} is not a valid model file: {one_line(why)}") from error


def _packed(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytearray:
    """Return the bytes of a file with these arrays and strings; the same content gives the same bytes."""
    blocks, table, end = [], {}, 0
    for name, tensor in tensors.items():
        kind = next((kind for kind, dtype in _TYPES.items() if dtype == tensor.dtype), None)
        if kind is None:
            raise TypeError(f"array {name!r} has the unsupported type {tensor.dtype}")
        blocks.append(np.ascontiguousarray(tensor).tobytes())
        place = [end, end := end + len(blocks[-1])]
        table[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": place}
    header = json.dumps(
        {"__metadata__": {"sha256": "0" * 64, **metadata}, **table}, separators=(",", ":"), allow_nan=False
    ).encode()
    header += b" " * (-len(header) % 8)  # so that every tensor starts at a multiple of eight
    content = bytearray(len(header).to_bytes(8, "little") + header + b"".join(blocks))
    content[_DIGEST] = hashlib.sha256(content).hexdigest().encode()
    return content


def _unpacked(source: str | Path | bytes) -> tuple[Tensors, dict[str, str], str]:
    """Return the arrays, the strings and the digest of a file; raise ModelFileError if it is damaged."""
    path = "the model" if isinstance(source, bytes) else source
    content = _content(source)
    header_end = 8 + int.from_bytes(content[:8], "little")
    if header_end > len(content):
        raise _damaged(path, "its header is longer than the file")
    whole, digest = hashlib.sha256(content).hexdigest(), bytes(content[_DIGEST])
    content[_DIGEST] = b"0" * 64
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise _damaged(path, "its SHA-256 does not match its content")
    try:
        header = _parsed(content[8:header_end].decode())
        metadata = header.pop("__metadata__")
        if not all(isinstance(text, str) for text in metadata.values()):
            raise ValueError("metadata must be strings")
        return _tensors(header, memoryview(content)[header_end:]), metadata, whole
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"its header is invalid ({error})") from error


def _content(source: str | Path | bytes) -> bytearray:
    if isinstance(source, bytes):
        return _checked(io.BytesIO(source), len(source), "the model")
    with Path(source).open("rb") as file:
        return _checked(file, os.fstat(file.fileno()).st_size, Path(source).name)


def _checked(file: IO[bytes], size: int, name: str) -> bytearray:
    """Read a file that begins like a model file and is not larger than one."""
    start = file.read(_DIGEST.stop)
    if not start[8:].startswith(_PREFIX) or len(start) < _DIGEST.stop:
        raise ModelFileError(f"{name} is not a dplan model file{_guess(start)}")
    header = int.from_bytes(start[:8], "little")
    for what, length, most in (("", size, _MAX_FILE), (" of header", header, _MAX_HEADER)):
        if length > most:
            raise ModelFileError(f"{name} has {length:,} bytes{what}; a model file has at most {most:,}")
    content = bytearray(start)
    content += file.read(_MAX_FILE)
    return content


def _tensors(table: dict[str, Any], data: memoryview) -> Tensors:
    tensors, end = {}, 0
    for name, entry in table.items():
        if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
            raise ValueError(f"tensor {name!r} has no type, shape or offsets")
        dtype, shape = next((d for kind, d in _TYPES.items() if kind == entry["dtype"]), None), entry["shape"]
        if dtype is None:
            raise ValueError(f"tensor {name!r} has the unsupported type {str(entry['dtype'])[:80]}")
        if isinstance(shape, list) and len(shape) > _MAX_DIMENSIONS:  # whose product could take minutes
            raise ValueError(f"tensor {name!r} has {len(shape):,} dimensions, the limit is {_MAX_DIMENSIONS}")
        if not isinstance(shape, list) or not all(
            type(length) is int and 0 <= length <= len(data) for length in shape
        ):
            raise ValueError(f"tensor {name!r} has the invalid shape {str(shape)[:80]}")
        size = math.prod(shape) * dtype.itemsize
        if entry["data_offsets"] != [end, end + size] or end + size > len(data):
            raise ValueError(f"tensor {name!r} has invalid offsets")
        # A copy is aligned and writable, like the arrays of a fitted detector, so that kernels are compiled only once.
        tensors[name] = np.frombuffer(data[end : end + size], dtype=dtype).reshape(shape).copy()
        end += size
    if end != len(data):
        raise ValueError(f"{len(data) - end:,} trailing bytes")
    return tensors


def _parsed(text: str) -> Any:
    """Parse JSON; unlike `json.loads`, reject NaN, duplicate names and invalid Unicode.

    Examples
    --------
    >>> _parsed('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> _parsed('{"a": NaN}')
    Traceback (most recent call last):
    ValueError: NaN is not allowed
    """
    text.encode()
    value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_reject_constant)
    if re.search(r"\\u[dD]", text):  # perhaps half of a surrogate pair, which cannot be encoded
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate name")
    return found


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")


def _damaged(path: str | Path, why: str) -> ModelFileError:
    return ModelFileError(f"{Path(path).name} is damaged: {one_line(why)}")


def _guess(start: bytes) -> str:
    if not start:
        return ": it is empty"
    if start.startswith(b"\x80"):
        return ": it looks like a pickle; dplan never loads pickles, because they can execute code"
    if start.startswith((b"PK\x03\x04", b"\x1f\x8b")):
        return ": it looks like an archive"
    return ""
