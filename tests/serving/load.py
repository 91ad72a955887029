"""Load with faults on a real server: good clients, bad clients, and a model that is replaced all the time."""

import asyncio
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import polars as pl

from dplan.tables.model import TableModel
from tests.serving.bodies import tensors
from tests.serving.process import Running

GOOD_CLIENTS = 20
MALFORMED = [b"{", b"[]", b"[7]", b'[{"amount": 1}]', b"\x00\xff", b'{"rows": 1}', b'[{"day": "x"}]', b""]

# For each protocol, how rows are sent, and where the scores are.
PROTOCOLS = {
    "/score": (lambda rows: rows, lambda found: found["score"]),
    "/invocations": (
        lambda rows: {"dataframe_records": rows},
        lambda found: [row["score"] for row in found["predictions"]],
    ),
    "/v2/models/m/infer": (
        lambda rows: {"inputs": tensors(rows)},
        lambda found: found["outputs"][0]["data"],
    ),
}


class Cut(Exception):
    """The connection was closed in the middle of an answer."""


async def ask(reader, writer, body, path="/score"):
    """Send a request; return its status and body, or None if the server closed the connection before answering."""
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        first = await reader.read(1)
    except ConnectionError:
        return None
    if not first:
        return None
    try:
        head = first + await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        content = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise Cut from error
    return int(head.split(b" ")[1]), content


def under_load(models, folder: Path, rows, seconds) -> dict[str, float]:
    """Serve one of two models that take turns, for some seconds; return what was counted."""
    tables = [TableModel.load(path) for path in models]
    frame = pl.DataFrame(rows)
    served = folder / "m.dplan"
    shutil.copy(models[0], served)
    with Running(folder, served, "--timeout", 2) as running:
        expected = [table.score(frame).tolist() for table in tables]
        thresholds = [table.threshold for table in tables]
        counts = dict.fromkeys(
            ("scored", "wrong scores", "5xx", "cut off", "malformed refused", "replaced"), 0
        )
        seen = set()
        memory: list[float] = []
        ending = time.monotonic() + seconds

        async def good(rng):
            connection = None
            while True:
                try:
                    connection = connection or await asyncio.open_connection("127.0.0.1", running.port)
                except OSError:
                    return  # the server has stopped
                start, n = rng.randrange(len(rows)), rng.choice([1, 1, 1, 20, 100])
                path = rng.choice(list(PROTOCOLS))
                body, scores = PROTOCOLS[path]
                try:
                    answer = await ask(*connection, json.dumps(body(rows[start : start + n])).encode(), path)
                except Cut:
                    counts["cut off"] += 1
                    return
                if answer is None:  # an idle connection that the server closed
                    connection[1].close()
                    connection = None
                    if time.monotonic() > ending:
                        return
                    continue
                status, content = answer
                if status == 200:
                    counts["scored"] += 1
                    found = json.loads(content)
                    right = [own[start : start + n] for own in expected]
                    if "threshold" in found:  # tells which model has answered
                        right = [right[thresholds.index(found["threshold"])]]
                        seen.add(found["threshold"])
                    counts["wrong scores"] += scores(found) not in right
                else:
                    counts["5xx"] += status >= 500
                if b"connection: close" in content.lower():
                    connection = None

        async def bad(rng):
            while time.monotonic() < ending:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
                except OSError:
                    return
                path = rng.choice(list(PROTOCOLS))
                kind = rng.choice(["malformed", "malformed", "stall", "leave", "garbage"])
                try:
                    if kind == "malformed":
                        answer = await ask(reader, writer, rng.choice(MALFORMED), path)
                        if answer is not None:
                            counts["malformed refused"] += 400 <= answer[0] < 500
                            counts["5xx"] += answer[0] >= 500
                    elif kind == "garbage":
                        writer.write(rng.randbytes(200) + b"\r\n\r\n")
                        await asyncio.wait_for(reader.read(1000), 3)
                    else:
                        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n[{{"
                        writer.write(head.encode())
                        await writer.drain()
                        await asyncio.sleep(rng.uniform(0, 4 if kind == "stall" else 0.01))
                except (OSError, TimeoutError, Cut):
                    pass
                finally:
                    writer.close()

        async def replace():
            while time.monotonic() < ending:
                await asyncio.sleep(min(seconds / 55, 1.1) if seconds > 60 else 1.1)
                counts["replaced"] += 1
                shutil.copy(models[counts["replaced"] % 2], folder / "next")
                os.replace(folder / "next", served)

        async def measure():
            await asyncio.sleep(seconds / 4)
            while time.monotonic() < ending:
                memory.append(running.memory())
                await asyncio.sleep(min(seconds / 10, 2))

        async def everything():
            clients = [asyncio.create_task(good(random.Random(i))) for i in range(GOOD_CLIENTS)]
            others = [bad(random.Random(100 + i)) for i in range(5)]
            await asyncio.gather(replace(), measure(), *others)
            running.process.send_signal(signal.SIGTERM)
            await asyncio.gather(*clients)

        asyncio.run(everything())
        counts["exit code"] = running.stop()
    endpoints = ("score", "invocations", "infer")
    answered = [e for e in running.log if e.get("endpoint") in endpoints and e["status"] == 200]
    return {
        **counts,
        "answered by the log": len(answered),
        "models seen": len(seen),
        "megabytes grown": round(max(memory[-3:]) - memory[0], 1),
    }
