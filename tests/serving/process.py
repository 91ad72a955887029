"""A real `dplan serve` on a free port of 127.0.0.1."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


class Running:
    """A server process; `log` has its lines once it has ended, or so far."""

    def __init__(self, folder: Path, *arguments: object, environment: dict[str, str] | None = None):
        self._log = folder / f"serve-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "dplan", "serve", *map(str, arguments), "--port", "0"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found is None:
            self.process.wait()
            raise RuntimeError(self._log.read_text())
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> list[dict]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def log_text(self) -> str:
        return self._log.read_text()

    def ask(self, path, body=None, *, method=None, headers=None):
        """Send a request; return its status, its content (parsed, if it is JSON) and the headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(
                method or ("GET" if body is None else "POST"),
                path,
                data,
                {"Connection": "close", **(headers or {})},
            )
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.headers.get("content-type") == "application/json":
            content = json.loads(content)
        return response.status, content, response.headers

    def memory(self) -> float:
        """Resident memory, in megabytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def stop(self, by=signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        try:
            return self.process.wait(180)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
