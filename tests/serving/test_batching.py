"""Requests that wait together are scored in one batch."""

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.serving.models import Batcher
from dplan.serving.rows import RequestReader
from dplan.tables import fit_table, from_table


@pytest.fixture(scope="module")
def reader():
    table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    return RequestReader(
        fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False), 10_000
    )


def scored(reader, sizes, before=lambda: None):
    """Score requests of these sizes, and check their scores; return the sizes of the requests in each batch."""
    batches = []

    class Pool(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            def run():
                before()
                return function(*arguments)

            return super().submit(run)

    async def ask(batcher, number, size):
        await asyncio.sleep(number % 3 * 0.001)
        amounts = [1000 * number + row for row in range(size)]
        found = await batcher.score(reader.read({"amount": amounts}))
        assert found.score.tolist() == reader.model.score(pl.DataFrame({"amount": amounts})).tolist()

    async def everything(pool):
        batcher = Batcher(
            reader, pool, 10**9, lambda results: batches.append([len(one.score) for one in results])
        )
        async with asyncio.timeout(60):
            await asyncio.gather(*(ask(batcher, number, size) for number, size in enumerate(sizes)))
        assert batcher.rows_waiting == 0

    with Pool(1) as pool:
        asyncio.run(everything(pool))
    return batches


def test_small_requests_wait_for_one_batch(reader):
    never = threading.Event()
    batches = scored(reader, [1] * 60, lambda: never.wait(0.05))
    assert sum(map(sum, batches)) == 60
    assert len(batches) <= 5


@pytest.mark.parametrize("seed", range(5))
def test_every_request_is_answered(seed, reader):
    rng = random.Random(seed)
    sizes = [rng.choice([1, 1, 1, 50, 400, 999, 1000, 1001, 3000]) for _ in range(80)]
    batches = scored(reader, sizes)
    assert sorted(size for batch in batches for size in batch) == sorted(sizes)
    assert all(len(batch) == 1 or sum(batch) <= 10_000 for batch in batches)
