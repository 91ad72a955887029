"""Put requests that arrive together into one batch.

While a batch is scored, requests wait; then all that wait are the next batch. An idle server scores a request at once,
and a busy one scores many small requests in the time of one. Large requests gain nothing from that: if enough rows
wait, another thread scores them at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import joblib

from dplan.serving.rows import Layout, Rows
from dplan.serving.scoring import Scored, score

__all__ = ["BATCHES_AT_ONCE", "Batcher", "QueueFullError"]

# More would wait for each other: a third of the time is Python's.
BATCHES_AT_ONCE = min(2, joblib.cpu_count())
_ENOUGH_ROWS = 1_000  # from here on, twice the rows take twice the time

Results = Sequence[Scored | Exception]


class QueueFullError(Exception):
    """More rows are waiting than the queue may hold."""


class Batcher:
    """Scores the rows of requests for one model, those that wait together in one batch.

    Parameters
    ----------
    layout : Layout
        How rows are read for the model.
    pool : Executor
        Where batches are scored, in `BATCHES_AT_ONCE` threads.
    max_waiting : int
        Rows that may wait; more are refused.
    observe : callable
        Called with the results of each batch.
    """

    def __init__(
        self, layout: Layout, pool: Executor, max_waiting: int, observe: Callable[[Results], object]
    ) -> None:
        self.layout = layout
        self.rows_waiting = 0
        self._pool, self._max_waiting, self._observe = pool, max_waiting, observe
        self._waiting: deque[tuple[Rows, asyncio.Future[Scored]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def score(self, rows: Rows) -> Scored:
        """Score rows, together with others that wait; raise QueueFullError if too many do."""
        if self._waiting and self.rows_waiting + rows.height > self._max_waiting:
            raise QueueFullError
        future: asyncio.Future[Scored] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, future))
        self.rows_waiting += rows.height
        if not self._running or (self._enough_wait() and len(self._running) < BATCHES_AT_ONCE):
            self._running.add(asyncio.create_task(self._run()))
        return await future

    def _enough_wait(self) -> bool:
        return self.rows_waiting >= _ENOUGH_ROWS

    async def _run(self) -> None:
        try:
            while self._waiting and (len(self._running) == 1 or self._enough_wait()):
                await self._score_a_batch()
        finally:  # at once, so that the next request starts a task if there is none
            task = asyncio.current_task()
            assert task is not None
            self._running.discard(task)

    async def _score_a_batch(self) -> None:
        batch = [self._waiting.popleft()]
        n_rows = batch[0][0].height
        while self._waiting and n_rows + self._waiting[0][0].height <= _ENOUGH_ROWS:
            batch.append(self._waiting.popleft())
            n_rows += batch[-1][0].height
        self.rows_waiting -= n_rows
        requests = [rows for rows, _ in batch]
        results: Results
        try:
            results = await asyncio.get_running_loop().run_in_executor(
                self._pool, score, self.layout, requests
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
