"""Put requests that arrive together into one batch.

While a batch is scored, requests wait; then all that wait are the next batch. An idle server scores a request at once,
and a busy one scores many small requests in the time of one. Large requests gain nothing from that, and go another way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from dplan.serving.rows import Layout, Rows
from dplan.serving.scoring import Scored, score

__all__ = ["Batcher", "QueueFullError"]

_BATCH_ROWS = 10_000

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
        Where batches are scored, one at a time.
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
        self._running: asyncio.Task[None] | None = None

    async def score(self, rows: Rows) -> Scored:
        """Score rows, together with others that wait; raise QueueFullError if too many do."""
        if self._waiting and self.rows_waiting + rows.height > self._max_waiting:
            raise QueueFullError
        future: asyncio.Future[Scored] = asyncio.get_running_loop().create_future()
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
                    self._pool, score, self.layout, [rows for rows, _ in batch]
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
