"""The models that are served: loaded from a file or folder, and again when a file is replaced; batches of requests."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dplan.exceptions import DplanError
from dplan.explain.explanation import effects
from dplan.persistence.atomic import file_state
from dplan.persistence.model_file import read_bytes
from dplan.rules.file import RuleFile
from dplan.serving.rows import RequestReader, RequestRows
from dplan.serving.scoring import Answer, score
from dplan.tables.model import TableModel
from dplan.text import one_line, printable

__all__ = ["Batcher", "Limits", "ModelEvent", "Models", "QueueFullError", "Results", "Served"]

_WARM_UP = 64  # rows: compiles kernels, or loads them from the cache
_BATCH_ROWS = 10_000

Results = Sequence[Answer | Exception]


class QueueFullError(Exception):
    """More rows are waiting than the queue may hold."""


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


class Batcher:
    """Scores the rows of requests for one model, those that wait together in one batch.

    While a batch is scored, requests wait; then all that wait are the next batch. An idle server scores a request at
    once, and a busy one scores many small requests in the time of one. Large requests gain nothing from that, and go
    another way.

    Parameters
    ----------
    reader : RequestReader
        Reads rows for the model.
    pool : Executor
        Where batches are scored, one at a time.
    max_waiting : int
        Rows that may wait; more are refused.
    observe : callable
        Called with the results of each batch.
    """

    def __init__(
        self, reader: RequestReader, pool: Executor, max_waiting: int, observe: Callable[[Results], object]
    ) -> None:
        self.reader = reader
        self.rows_waiting = 0
        self._pool, self._max_waiting, self._observe = pool, max_waiting, observe
        self._waiting: deque[tuple[RequestRows, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def score(self, rows: RequestRows) -> Answer:
        """Score rows, together with others that wait; raise QueueFullError if too many do."""
        if self._waiting and self.rows_waiting + rows.height > self._max_waiting:
            raise QueueFullError
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, future))
        self.rows_waiting += rows.height
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [self._waiting.popleft()]
            n_rows = batch[0][0].height
            while self._waiting and n_rows + self._waiting[0][0].height <= _BATCH_ROWS:
                batch.append(self._waiting.popleft())
                n_rows += batch[-1][0].height
            self.rows_waiting -= n_rows
            try:
                results = await loop.run_in_executor(
                    self._pool, score, self.reader, [rows for rows, _ in batch]
                )
            except Exception as error:  # a bug: the requests fail, later ones are served
                results = [error] * len(batch)
            self._observe(results)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():  # its client has left
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._running = None


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
class ModelEvent:
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
    novelty : bool
        Whether answers tell how novel rows are.
    kinds : RuleFile, optional
        Kinds that answers tell; rows of a muted kind are no alerts.
    """

    def __init__(
        self,
        source: Path,
        limits: Limits,
        pool: Executor,
        observe: Callable[[str, Results], object],
        novelty: bool = False,
        kinds: RuleFile | None = None,
    ) -> None:
        self._novelty, self._kinds = novelty, kinds
        self._source, self._limits, self._pool, self._observe = source, limits, pool, observe
        self._states: dict[str, tuple[int, ...] | None] = {}
        self.current: dict[str, Served] = {}
        self.problems: dict[str, str] = {}

    def files(self) -> dict[str, Path]:
        """Return the model files by the names of the models."""
        if not self._source.is_dir():
            return {self._source.stem: self._source}
        # Not `glob`, for which a folder that cannot be read is an empty one, whose models would be removed.
        paths = sorted(path for path in self._source.iterdir() if path.suffix == ".dplan")
        return {path.stem: path for path in paths if not path.name.startswith(".")}

    def refresh(self) -> Iterator[ModelEvent]:
        """Load files that are new or were replaced, and yield what changed.

        A file that cannot be loaded leaves the old model, whatever is wrong with it, and the other models.
        """
        files = self.files()
        for name, path in files.items():
            state = file_state(path)
            if state is not None and self._states.get(name) == state:
                continue
            self._states[name] = state
            try:
                served = self._load(name, read_bytes(path))
            except FileNotFoundError:  # about to be replaced
                continue
            except Exception as error:
                if isinstance(error, OSError):  # such as too many open files: it is tried again
                    self._states[name] = None
                problem, known = _problem(error), self.problems.get(name)
                self.problems[name] = f"{printable(path.name)}: {problem}"
                if self._states[name] is not None or self.problems[name] != known:
                    yield ModelEvent(printable(name), "model not loaded", error=problem)
                continue
            self.problems.pop(name, None)
            old = self.current.get(name)
            if old is None or old.digest != served.digest:
                self.current = {**self.current, name: served}
                yield ModelEvent(name, "model loaded" if old is None else "model replaced", served.digest)
        if self._source.is_dir():
            for name in self._states.keys() - files.keys():
                del self._states[name]
                self.problems.pop(name, None)
                if name in self.current:
                    self.current = {other: served for other, served in self.current.items() if other != name}
                    yield ModelEvent(name, "model removed")

    def _load(self, name: str, content: bytes) -> Served:
        name.encode()  # a name that is not UTF-8 cannot be written to answers and metrics
        model = TableModel.load(content)
        rows = model.background[:_WARM_UP]
        model.scores_of(rows)
        effects(model.detector, rows[:1], model.background)
        reader = RequestReader(model, self._limits.rows, self._novelty, self._kinds)
        observe = partial(self._observe, name)
        batcher = Batcher(reader, self._pool, self._limits.waiting, observe)
        return Served(name, hashlib.sha256(content).hexdigest(), model, batcher)


def _problem(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "the name of the file is not UTF-8"
    return one_line(error if isinstance(error, DplanError | OSError) else f"{type(error).__name__}: {error}")
