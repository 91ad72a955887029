"""The models that are served: loaded from a file or folder, and again when a file is replaced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dplan.exceptions import ModelFileError
from dplan.explain.explanation import effects
from dplan.persistence.atomic import file_state
from dplan.serving.batching import Batcher, Results
from dplan.serving.rows import Layout
from dplan.tables.model import TableModel

__all__ = ["Change", "Limits", "Models", "Served"]

_WARM_UP = 64  # rows: compiles kernels, or loads them from the cache


@dataclass(frozen=True)
class Limits:
    """Limits of the server.

    Attributes
    ----------
    body : int
        Bytes of a request.
    rows, explained : int
        Rows of a request to score, or to explain.
    waiting : int
        Rows that may wait to be scored.
    seconds : float
        Time to receive a request.
    """

    body: int = 16_000_000
    rows: int = 10_000
    explained: int = 100
    waiting: int = 50_000
    seconds: float = 30.0


@dataclass(frozen=True, eq=False)
class Served:
    """One version of a model: name, digest of its file, and how it scores requests."""

    name: str
    digest: str
    model: TableModel
    batcher: Batcher

    @property
    def version(self) -> str:
        """The first characters of the digest."""
        return self.digest[:12]


@dataclass(frozen=True)
class Change:
    """A model that was loaded, removed or, with an error, kept as it was."""

    name: str
    event: str
    digest: str = ""
    error: str = ""


class Models:
    """The models of a file, or of all ``.dplan`` files in a folder.

    Parameters
    ----------
    source : path
        File or folder.
    limits : Limits
        Limits of the server.
    pool : Executor
        Where rows are scored.
    observe : callable
        Called with the name of the model and the results of each batch.
    """

    def __init__(
        self, source: Path, limits: Limits, pool: Executor, observe: Callable[[str, Results], object]
    ) -> None:
        self._source, self._limits, self._pool, self._observe = source, limits, pool, observe
        self._states: dict[str, tuple[int, ...] | None] = {}
        self.current: dict[str, Served] = {}
        self.problems: dict[str, str] = {}

    def files(self) -> dict[str, Path]:
        """Return the model files by the names of the models."""
        folder = self._source.is_dir()
        paths = sorted(self._source.glob("*.dplan")) if folder else [self._source]
        return {path.stem: path for path in paths if not path.name.startswith(".")}

    def refresh(self) -> Iterator[Change]:
        """Load files that are new or were replaced, and yield what changed. A damaged file leaves the old model."""
        files = self.files()
        for name, path in files.items():
            try:
                state = file_state(path)
                if state is not None and self._states.get(name) == state:
                    continue
                self._states[name] = state
                served = self._load(name, path.read_bytes())
            except FileNotFoundError:  # about to be replaced
                continue
            except (ModelFileError, OSError) as error:
                self.problems[name] = f"{path.name}: {error}"
                yield Change(name, "model not loaded", error=str(error))
                continue
            self.problems.pop(name, None)
            old = self.current.get(name)
            if old is None or old.digest != served.digest:
                self.current = {**self.current, name: served}
                yield Change(name, "model loaded" if old is None else "model replaced", served.digest)
        if self._source.is_dir():
            for name in self.current.keys() - files.keys():
                self.current = {other: served for other, served in self.current.items() if other != name}
                del self._states[name]
                yield Change(name, "model removed")

    def _load(self, name: str, content: bytes) -> Served:
        model = TableModel.load(content)
        rows = model.background[:_WARM_UP]
        model.detector.anomaly_score(rows)
        effects(model.detector, rows[:1], model.background)
        layout, observe = Layout(model, self._limits.rows), partial(self._observe, name)
        batcher = Batcher(layout, self._pool, self._limits.waiting, observe)
        return Served(name, hashlib.sha256(content).hexdigest(), model, batcher)
