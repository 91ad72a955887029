"""The rows that the experiments use: the paper's data sets, and tables of other collections."""

from pathlib import Path

from dplan.datasets import data_home

__all__ = ["collection_folder"]


def collection_folder(name: str, home: str | Path | None = None) -> Path:
    """Return the folder of another collection: `name` in the data home if it exists, else the data home itself."""
    folder = Path(home) if home is not None else data_home()
    inner = folder / name
    return inner if inner.is_dir() else folder
