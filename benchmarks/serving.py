"""`dplan serve` against the same server returning a constant, and against the model called in-process.

One server process, DPLANEnsemble on 54 columns. The clients run in this process; on two cores they take a good part of
one, so rates are lower bounds.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.bars import Bar, show
from dplan import DPLANEnsemble
from dplan.datasets import scenario
from dplan.tables import fit_table, from_table
from dplan.tables.model import TableModel

CONNECTIONS = 100

# The same server, routes and checks; only the rows are not read and not scored.
CONSTANT = """
import sys
from dplan.cli.main import main
from dplan.serving import app
from dplan.serving.protocols import json_response
from dplan.web import receive_body

async def answer(self, request, *_, **__):
    await receive_body(request, self.limits.body, self.limits.seconds)
    return json_response({"model": "m", "digest": "0" * 64, "score": [0.5], "percentile": [99.5], "alert": [True]})

app.Service._answer = answer
main(["serve", *sys.argv[1:]])
"""


@contextmanager
def serving(code: str, model: Path) -> Iterator[int]:
    """Start a server and yield its port."""
    command = [sys.executable, "-c", code, str(model), "--port", "0", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r":(\d+) ", process.stdout.readline())
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class Client(asyncio.Protocol):
    """One connection that sends a request, waits for the answer, and again; it does nothing else, to be fast."""

    def __init__(self, request: bytes, latencies: list[float], pace: float = 0.0) -> None:
        self.request, self.latencies, self.pace = request, latencies, pace
        self.buffer = b""
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.loop = asyncio.get_running_loop()
        self.due = time.perf_counter()
        self.send()

    def send(self) -> None:
        """Send a request."""
        if not self.stopped:
            # Of a paced client, time counts from when the request was due, so that waiting counts too.
            self.sent = self.due if self.pace else time.perf_counter()
            self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Note the time of a whole answer, and send the next request."""
        self.buffer = self.buffer + data if self.buffer else data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        assert head.startswith(b"HTTP/1.1 200"), self.buffer[:300]
        self.buffer = b""
        now = time.perf_counter()
        self.latencies.append(now - self.sent)
        if not self.pace:
            self.send()
            return
        self.due = max(self.due + self.pace, now - 1)
        self.loop.call_later(max(0.0, self.due - now), self.send)


def load(port: int, body: bytes, connections: int, seconds: float, rate: float = 0.0) -> NDArray[np.float64]:
    """Return the seconds that each request took; with a rate, so many are sent per second."""
    head = f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    latencies: list[float] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        clients: list[Client] = []
        pace = connections / rate if rate else 0.0
        for _ in range(connections):
            _, client = await loop.create_connection(
                lambda: Client(head + body, latencies, pace), "127.0.0.1", port
            )
            clients.append(client)
            if rate:
                await asyncio.sleep(1 / rate)  # spread over time
        await asyncio.sleep(1)  # warm
        latencies.clear()
        await asyncio.sleep(seconds)
        for client in clients:
            client.stopped = True
            client.transport.abort()

    asyncio.run(run())
    return np.array(latencies)


def throughput(model: TableModel, table: pl.DataFrame, seconds: float) -> float:
    """Return the rows per second of the model called in-process."""
    model.score(table)
    n, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        model.score(table)
        n += table.height
    return n / (time.perf_counter() - started)


def run(seconds: float = 4.0, rounds: int = 3) -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    task = scenario("covertype-mini/cottonwood-v1", seed=0)
    own = from_table(
        task.features.with_columns(label=pl.Series((task.y > 0).astype(np.int64))), label="label"
    )
    model = fit_table(own, DPLANEnsemble(random_state=0), estimate=False)
    table = task.features_test[:1000]
    one = json.dumps(table[:1].to_dicts()).encode()
    forms = {
        "records": json.dumps(table.to_dicts()).encode(),
        "columns": json.dumps({"columns": table.to_dict(as_series=False)}).encode(),
    }
    real = "import sys; from dplan.cli.main import main; main(['serve', *sys.argv[1:]])"
    rates: dict[str, list[float]] = {name: [] for name in ("constant", "one", "in-process", *forms)}
    paced = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.dplan"
        model.save(path)
        with serving(CONSTANT, path) as constant, serving(real, path) as port:
            for _ in range(rounds):  # take turns: other load then hits all
                rates["constant"].append(len(load(constant, one, CONNECTIONS, seconds)) / seconds)
                rates["one"].append(len(load(port, one, CONNECTIONS, seconds)) / seconds)
                paced.append(load(port, one, CONNECTIONS, seconds, rate=rates["one"][-1] / 2))
                rates["in-process"].append(throughput(model, table, seconds))
                for name, body in forms.items():
                    rates[name].append(1000 * len(load(port, body, 4, seconds)) / seconds)
    best = {name: max(found) for name, found in rates.items()}
    median, p99 = min(
        (tuple(np.quantile(found, [0.5, 0.99]) * 1e3) for found in paced), key=lambda q: q[1] / q[0]
    )
    bars = [
        Bar(
            f"single rows, {CONNECTIONS} connections, against a constant",
            max(a / b for a, b in zip(rates["one"], rates["constant"], strict=True)),
            f"{best['one']:,.0f} against {best['constant']:,.0f} requests per second",
            at_least=0.5,
        ),
        Bar(
            "at half of that rate, p99 against the median",
            p99 / median,
            f"{p99:.1f} ms against {median:.1f} ms",
            at_most=5,
        ),
    ]
    for name in forms:
        ratio = max(a / b for a, b in zip(rates[name], rates["in-process"], strict=True))
        detail = f"{best[name]:,.0f} against {best['in-process']:,.0f} rows per second"
        bars.append(Bar(f"1,000 rows as {name}, against in-process", ratio, detail, at_least=0.7))
    return show("Serving", bars)


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
