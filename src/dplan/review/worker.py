"""An `Engine` in a process of its own, so that scoring and training never delay a verdict.

The processes exchange JSON lines over pipes and rounds as files in a private folder. The worker ends when its pipe
does, so none is left behind when the server is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

if (
    TYPE_CHECKING
):  # here, the packages behind these would delay the start of the process that needs them first
    from dplan.review.rounds import Progress, Round
    from dplan.review.table import TableFile

__all__ = ["Worker"]

_NICENESS = (
    5  # of a refit, because verdicts and the page come first; while the table is opened, there are none
)


class Worker:
    """Makes rounds in another process, which imports what it needs from now on.

    Also a context manager that ends the process.
    """

    table: TableFile

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="dplan-review-")
        self._lock = threading.Lock()
        self._wanted: set[tuple[str, ...]] = set()
        self._closed = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dplan.review.worker", self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def begin(self, table: TableFile, model: Path | None, *, drop: Sequence[str] = (), seed: int = 0) -> Self:
        """Say what the rounds are about; the parameters are those of `Engine`."""
        self.table = table
        file = {"input": table.input.to_json(), "ids": list(table.ids)}
        model_file = None if model is None else str(model)
        with suppress(BrokenPipeError):  # the first round says what happened
            self._send({"table": file, "model": model_file, "drop": list(drop), "seed": seed})
        return self

    def open(self, wanted: Sequence[tuple[str, ...]], progress: Progress) -> Round:
        """Score the table with the first model."""
        self._wanted |= set(wanted)
        with self._lock:
            return self._round(0, {"wanted": [list(row) for row in self._wanted]}, progress)

    def refit(self, classes: Mapping[int, str], number: int, progress: Progress) -> Round:
        """Learn from verdicts and score the table again."""
        with self._lock:
            return self._round(number, {"classes": [*classes.items()]}, progress)

    def close(self) -> None:
        """End the process and remove its files."""
        self._closed = True
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _round(self, number: int, job: dict[str, Any], progress: Progress) -> Round:
        from dplan.review.rounds import Round

        if self._process.poll() is not None:
            raise RuntimeError(
                f"the training process ended unexpectedly (exit code {self._process.returncode}); "
                "verdicts are still saved, start the review again to continue learning"
            )
        folder = Path(self._folder.name) / f"round-{number}"
        folder.mkdir(exist_ok=True)
        with suppress(BrokenPipeError):  # then there is no answer, either
            self._send({"number": number, "folder": str(folder), **job})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "stage" in message:
                progress(message["stage"], message["done"], message["total"])
            elif "error" in message:
                raise ValueError(message["error"])
            else:
                return Round.load(folder, number)
        self._process.wait()
        if self._closed:
            raise RuntimeError("the review was closed")
        return self._round(number, job, progress)  # which says what happened


def main() -> None:
    """Answer jobs from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may write to the pipe
    jobs = (json.loads(line) for line in sys.stdin)

    def answer(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    def progress(stage: str, done: int, total: int | None) -> None:
        answer(stage=stage, done=done, total=total)

    from dplan._kernels.compiling import compiling
    from dplan.review.engine import Engine, load_kernels
    from dplan.review.table import TableFile
    from dplan.tables.input import Input

    compiling.notify = lambda message: progress(message, 0, None)
    load_kernels()  # while the server starts
    settings = next(jobs, None)
    if settings is None:  # closed before it began
        return
    table = settings.pop("table")
    file = TableFile(Input(**table["input"]), tuple(table["ids"]))
    model = settings.pop("model")
    engine = Engine(file, None if model is None else Path(model), **settings)
    for job in jobs:
        try:
            if "wanted" in job:
                made = engine.open({tuple(row) for row in job["wanted"]}, progress)
            else:
                with suppress(AttributeError, OSError):
                    os.nice(_NICENESS - os.nice(0))
                made = engine.refit(dict(job["classes"]), job["number"], progress)
            made.save(Path(job["folder"]))
            answer(done=True)
        except BrokenPipeError:
            return
        except Exception as error:  # reported to the page; the next refit may work
            answer(error=" ".join(str(error).split()) or type(error).__name__)


if __name__ == "__main__":
    try:
        with suppress(BrokenPipeError, KeyboardInterrupt):
            main()
    finally:  # if the server was killed, nobody else removes the rows
        shutil.rmtree(sys.argv[1], ignore_errors=True)
