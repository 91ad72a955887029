"""Model files: a JSON description and arrays in one file, with a format version; no code is executed.

A model file is a safetensors file (see `dplan.persistence.container`) with the description in its metadata. Detectors
and tables define the meaning of the description and the arrays, and check them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dplan._version import __version__
from dplan.exceptions import ModelFileError
from dplan.persistence import container
from dplan.persistence.container import Tensors
from dplan.text import one_line

__all__ = ["FORMAT", "Contents", "model_file_errors", "read", "write"]

FORMAT = 1  # increased when older versions cannot read new files; all earlier formats stay supported


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
    """

    name: str
    description: dict[str, Any]
    tensors: Tensors

    @property
    def package(self) -> str:
        """Version of this package that wrote the file."""
        return str(self.description["package"])


def write(path: str | Path, description: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write a model file atomically; an existing one is replaced."""
    text = json.dumps(
        {"format": FORMAT, "package": __version__, **description}, separators=(",", ":"), allow_nan=False
    )
    container.write(path, tensors, {"dplan": text})


def read(source: str | Path | bytes) -> Contents:
    """Read a model file from a path or bytes; raise ModelFileError if it is damaged or from a newer version."""
    tensors, metadata = container.read(source)
    name = "the model" if isinstance(source, bytes) else Path(source).name
    with model_file_errors(name):
        description = container.parsed(metadata["dplan"])
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
        return Contents(name, description, tensors)


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
