"""A model file: a JSON description and arrays in one file, with the number of its format; nothing in it is executed.

It is a safetensors file (see `dplan.persistence.container`) whose metadata hold the description. What the description
and the arrays mean, and whether they are sound, is for those to say who wrote them: detectors and tables.
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

__all__ = ["FORMAT", "Contents", "read", "refusing", "write"]

FORMAT = 1  # raised when an older package could not read a newer file rightly; all lower ones keep loading


@dataclass(frozen=True)
class Contents:
    """What is in a model file.

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
    """Write a model file, whole or not at all; an existing one is replaced."""
    text = json.dumps(
        {"format": FORMAT, "package": __version__, **description}, separators=(",", ":"), allow_nan=False
    )
    container.write(path, tensors, {"dplan": text})


def read(source: str | Path | bytes) -> Contents:
    """Read a model file, or its bytes; ModelFileError if it is damaged or from a newer version."""
    tensors, metadata = container.read(source)
    name = "the model" if isinstance(source, bytes) else Path(source).name
    with refusing(name):
        description = container.parsed(metadata["dplan"])
        if not isinstance(description, dict):
            raise ValueError("the description is not an object")
        written, package = description["format"], description["package"]
        if type(written) is int and written > FORMAT:
            newer = container.one_line(f"dplan {package} in format {written}")
            raise ModelFileError(
                f"{name} was written by {newer}; "
                f"this is dplan {__version__}, which reads up to {FORMAT}: install a newer one"
            )
        if written != FORMAT:
            raise ValueError(f"there is no format {written!r}")
        return Contents(name, description, tensors)


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while the contents of a file are used into a ModelFileError that names it.

    Examples
    --------
    >>> with refusing("m.dplan"):
    ...     {}["weights_"]
    Traceback (most recent call last):
    dplan.exceptions.ModelFileError: m.dplan is not a usable model file: 'weights_' is missing
    """
    try:
        yield
    except ModelFileError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelFileError(f"{name} is not a usable model file: {container.one_line(why)}") from error
