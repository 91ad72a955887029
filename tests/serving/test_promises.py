"""Promises of the service that a client cannot see, or only under load: the application is called in this process."""

import asyncio
import json
import logging
import os
import tracemalloc
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dplan import LogisticBaseline
from dplan.persistence import model_file
from dplan.persistence.atomic import file_state
from dplan.serving import app
from dplan.serving.app import Service
from dplan.serving.metrics import RequestLog
from dplan.serving.models import Batcher, Limits, Models
from dplan.serving.rows import RequestReader
from dplan.tables import TableModel, fit_table, from_table
from dplan.web import receive_body

LIMITS = Limits(body=40_000, explained=1, seconds=0.05)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    model = fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False)
    path = tmp_path_factory.mktemp("promises") / "m.dplan"
    model.save(path)
    return path


@pytest.fixture
def service(path):
    return Service(path, LIMITS)


def scope(target="/score", **headers):
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http", "method": "POST", "path": target, "raw_path": target.encode(), "query_string": b"",
        "headers": given, "http_version": "1.1", "scheme": "http", "server": ("localhost", 80),
    }  # fmt: skip


async def asked(app, body, target="/score", *, stalls=False, **headers):
    """Send a request to an application; return its status, headers and content."""
    sent = []

    async def receive():
        if stalls:
            await asyncio.sleep(600)
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope(target, host="localhost", **headers), receive, send)
    start, *rest = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], names, json.loads(b"".join(part["body"] for part in rest))


def test_the_message_of_an_error_is_not_logged(caplog):
    async def broken(*_):
        raise RuntimeError("the amount 31337 of Atlantis")

    app = RequestLog(broken, lambda *_: None)
    with caplog.at_level(logging.INFO, "dplan.serving"):
        logging.getLogger("dplan.serving").propagate = True
        asyncio.run(app(scope(), None, None))
    noted = [record for record in caplog.records if record.getMessage() == "error"]
    assert [record.fields["error"] for record in noted] == ["RuntimeError"]
    assert "31337" not in str([(record.getMessage(), vars(record)) for record in caplog.records])


def test_a_body_over_the_limit_is_received_but_not_kept():
    most, part = 1_000_000, 50_000

    async def receive():
        nonlocal left
        left -= part
        return {"type": "http.request", "body": bytes(part), "more_body": left > 0}

    left = 4 * most
    tracemalloc.start()
    try:
        with pytest.raises(HTTPException) as refused:
            asyncio.run(receive_body(Request(scope(), receive), most, 60))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (refused.value.status_code, left) == (413, 0)
    assert peak < 2 * most


@pytest.mark.parametrize(("status", "stalls"), [(408, True), (413, False)])
def test_a_connection_is_closed_after_a_body_that_was_not_read(status, stalls, service):
    found, headers, _ = asyncio.run(asked(service.app, b"[" * 200_000, stalls=stalls))
    assert (found, headers["connection"]) == (status, "close")


def test_large_requests_that_fail_leave_no_bytes_waiting(service):
    good = json.dumps([{"amount": 7.25}] * 2_200).encode()
    assert 2**15 < len(good) < LIMITS.body

    async def everything():
        for _ in range(10):
            assert (await asked(service.app, b'[{"amount": "x"},' + good[1:]))[0] == 422
            assert (await asked(service.app, good[:-1]))[0] == 400
        return await asked(service.app, good)

    status, _, found = asyncio.run(everything())
    assert (status, len(found["score"])) == (200, 2_200)
    assert service._bytes_waiting == 0


def test_a_body_of_too_many_rows_is_refused_before_it_is_parsed(path):
    """It is not JSON either, which only a parser would find."""
    service = Service(path, Limits(rows=10))
    status, _, found = asyncio.run(asked(service.app, b"[" * 201))
    assert (status, "too many for 10 rows" in found["error"]) == (413, True)
    assert asyncio.run(asked(service.app, b"[" * 200))[0] == 400


class Later(ThreadPoolExecutor):
    """A pool that does nothing before it is told to."""

    def __init__(self):
        super().__init__(1)
        self.jobs = []

    def submit(self, function, *arguments):
        self.jobs.append((Future(), function, arguments))
        return self.jobs[-1][0]

    def go_on(self):
        for future, function, arguments in self.jobs:
            if not future.cancelled():
                future.set_result(function(*arguments))
        self.jobs.clear()


def test_rows_that_wait_to_be_explained_are_limited(service):
    service._explaining = pool = Later()

    def explain():
        return asked(service.app, b'[{"amount": 7}]', "/explain")

    async def everything():
        waiting = [asyncio.create_task(explain()) for _ in range(10)]
        while len(pool.jobs) < 10:
            await asyncio.sleep(0)
        one_more = asyncio.create_task(explain())
        while not (one_more.done() or len(pool.jobs) > 10):
            await asyncio.sleep(0)
        pool.go_on()
        refused, *answers = await asyncio.gather(one_more, *waiting)
        once_more = asyncio.create_task(explain())
        while not (once_more.done() or pool.jobs):
            await asyncio.sleep(0)
        pool.go_on()
        return refused, [*answers, await once_more]

    refused, answers = asyncio.run(everything())
    assert refused[0] == 503
    assert [status for status, _, _ in answers] == [200] * 11


async def filled(app, body, pool):
    """Ask until the first request is refused; return its answer and, when the others are scored, theirs."""
    waiting = []
    while not any(task.done() for task in waiting):
        waiting.append(asyncio.create_task(asked(app, body)))
        for _ in range(20):  # enough for a request to be refused, or to wait
            await asyncio.sleep(0)
        assert len(waiting) < 1000
    (refused,) = (task.result() for task in waiting if task.done())
    while not all(task.done() for task in waiting):
        pool.go_on()
        await asyncio.sleep(0)
    return refused, [task.result() for task in waiting]


def test_a_full_queue_asks_to_come_back(path):
    service = Service(path, Limits(waiting=10))
    (served,) = service.models.current.values()
    served.batcher._pool = pool = Later()
    body = json.dumps([{"amount": 7}] * 8).encode()
    (status, headers, found), answers = asyncio.run(filled(service.app, body, pool))
    assert (status, headers["retry-after"]) == (503, "1")
    assert "too many rows are waiting" in found["error"]
    assert [status for status, _, _ in answers] == [200, 200, 503]  # one is scored, one waits


def test_large_requests_fill_a_queue_of_their_own(service):
    service._scoring_large = pool = Later()
    body = json.dumps([{"amount": 7.25}] * 2_200).encode()
    (status, _, _), answers = asyncio.run(filled(service.app, body, pool))
    assert status == 503
    assert [status for status, _, _ in answers] == [200] * (len(answers) - 1) + [503]
    assert len(answers) == 1 + 4 * LIMITS.body // len(body)
    assert asyncio.run(asked(service.app, b'[{"amount": 7}]'))[0] == 200


def test_a_client_that_leaves_does_not_break_its_batch(path):
    reader = RequestReader(TableModel.load(path), 100)
    pool = Later()

    async def everything():
        batcher = Batcher(reader, pool, 100, lambda results: None)
        first = asyncio.create_task(batcher.score(reader.read({"amount": [1]})))
        while not pool.jobs:
            await asyncio.sleep(0)
        batch = [asyncio.create_task(batcher.score(reader.read({"amount": [n]}))) for n in (2, 3, 4)]
        await asyncio.sleep(0)
        pool.go_on()  # the first one; the others are the next batch
        while not pool.jobs:
            await asyncio.sleep(0)
        batch[0].cancel()
        await asyncio.sleep(0)
        pool.go_on()
        found = await asyncio.wait_for(asyncio.gather(first, *batch[1:]), 60)
        late = asyncio.create_task(batcher.score(reader.read({"amount": [5]})))
        while not pool.jobs:
            await asyncio.sleep(0)
        pool.go_on()
        return [*found, await late]

    found = asyncio.run(everything())
    expected = reader.model.score(pl.DataFrame({"amount": [1, 3, 4, 5]}))
    assert [one.score.item() for one in found] == expected.tolist()


def test_a_score_equal_to_the_threshold_is_an_alert(path, tmp_path):
    model = TableModel.load(path)
    scores = model.score(pl.DataFrame({"amount": [10, 20]}))
    model.detector.offset_ = -float(scores.max())
    model.save(tmp_path / "m.dplan")
    status, _, found = asyncio.run(
        asked(Service(tmp_path / "m.dplan", LIMITS).app, b'[{"amount": 10}, {"amount": 20}]')
    )
    assert status == 200
    assert found["alert"] == (scores == scores.max()).tolist()


def test_a_model_replaced_by_one_of_the_same_size_and_time_is_noticed(path, tmp_path):
    own = tmp_path / "m.dplan"
    own.write_bytes(path.read_bytes())
    models = Models(own, LIMITS, ThreadPoolExecutor(1), lambda *_: None)
    assert [event.event for event in models.refresh()] == ["model loaded"]
    before, first = own.stat(), file_state(own)
    found = model_file.read(own)
    changed = {
        name: (array + 1 if name == "table.background" else array) for name, array in found.tensors.items()
    }
    assert any(not np.array_equal(changed[name], array) for name, array in found.tensors.items())
    content = model_file.packed(found.description, changed)
    assert len(content) == before.st_size
    while file_state(own) == first:  # within one tick of the clock, nobody can notice
        own.write_bytes(content)
        os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (own.stat().st_size, own.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert [event.event for event in models.refresh()] == ["model replaced"]


def test_a_refresh_that_fails_is_logged_without_its_message_and_tried_again(service, monkeypatch, caplog):
    tried = asyncio.Event()
    failures = iter([OSError("secret.csv"), ValueError("secret")])

    def refresh():
        error = next(failures, None)
        if error is None:
            loop.call_soon_threadsafe(tried.set)
        else:
            raise error

    async def run():
        nonlocal loop
        loop = asyncio.get_running_loop()
        async with service._lifespan(None):
            await tried.wait()

    loop = None
    monkeypatch.setattr(app, "_REFRESH_SECONDS", 0)
    monkeypatch.setattr(service, "refresh", refresh)
    monkeypatch.setattr(logging.getLogger("dplan.serving"), "propagate", True)
    with caplog.at_level(logging.WARNING, "dplan.serving"):
        asyncio.run(run())
    assert [record.message for record in caplog.records] == ["models not refreshed"] * 2
    assert [record.fields for record in caplog.records] == [{"error": "OSError"}, {"error": "ValueError"}]
