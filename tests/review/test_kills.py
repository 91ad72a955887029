"""Sessions that are killed at random moments: no acknowledged verdict is lost, and they end with the same labels."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from dplan.review.log import Standing, read_log
from tests.conftest import PROJECT
from tests.review.killable import run

VERDICTS = 60

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")


def labels(log):
    return {key: record["verdict"] for key, record in Standing(read_log(log)).current.items()}


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.soak)])
def test_kills_lose_no_verdict_and_change_nothing(kills, folder, tmp_path):
    whole = []
    started = time.monotonic()
    run(folder, tmp_path / "whole.jsonl", VERDICTS, whole.append)
    expected = labels(tmp_path / "whole.jsonl")
    rng, done, sessions = random.Random(3), 0, 0
    seconds = time.monotonic() - started
    while done < kills:
        sessions += 1
        log, acknowledged, finished = tmp_path / f"{sessions}.jsonl", [], False
        while not finished:
            command = [sys.executable, "-m", "tests.review.killable", str(folder), str(log), str(VERDICTS)]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env={**os.environ}
            )
            if done < kills:
                first = process.stdout.readline()  # so that kills hit the review, and not Python's start
                acknowledged += [int(first)] if first.endswith("\n") else []
                time.sleep(rng.uniform(0, 0.5 * seconds))
                process.kill()
            rest, _ = process.communicate()
            acknowledged += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
            finished = process.returncode == 0
            done += process.returncode == -signal.SIGKILL
            assert finished or process.returncode == -signal.SIGKILL
            numbers = [record["number"] for record in read_log(log) if record["kind"] == "verdict"]
            assert set(acknowledged) <= set(numbers)
            assert len(numbers) == len(set(numbers))
        assert numbers == whole
        assert labels(log) == expected
    print(f"\n{done} kills in {sessions} sessions: no acknowledged verdict lost, the same labels")  # noqa: T201
