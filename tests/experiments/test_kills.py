"""Kills, second runners and full disks: what is recorded stays, and the end is the same."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("resource", reason="no such limits on this system")

from experiments.journal import NAME, read_journal
from experiments.pages import report_blocks
from experiments.results import Results
from experiments.runner import _starting_workers, run
from tests.experiments import killable
from tests.experiments.small_cells import ENVIRONMENT, figures, make_small_plan

KILLS = 30


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The whole plan in one go, and how long that takes in a process of its own."""
    plan = make_small_plan(runs=2)
    folder = tmp_path_factory.mktemp("undisturbed")
    killable.start(plan, folder / "warm-up").join()  # the server imports, numba loads its kernels
    started = time.monotonic()
    process = killable.start(plan, folder / "whole")
    process.join()
    assert process.exitcode == 0
    seconds = time.monotonic() - started
    expected = figures(folder / "whole")
    assert {cell["status"] for cell in expected.values()} == {"done"}
    return plan, expected, seconds


def test_thirty_kills_lose_nothing_repeat_nothing_and_change_nothing(undisturbed, tmp_path):
    plan, expected, seconds = undisturbed
    rng = random.Random(5)
    kills = folders = 0
    while kills < KILLS:
        folders += 1
        folder = tmp_path / str(folders)
        before = {}
        finished = False
        while not finished and kills < KILLS:
            process = killable.start(plan, folder)
            process.join(rng.uniform(0.0, 0.6 * seconds))
            process.kill()
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL)
            finished = process.exitcode == 0
            kills += not finished
            now = (
                figures(folder) if (folder / NAME).exists() else {}
            )  # also checks that no cell is there twice
            assert before.items() <= now.items(), "a finished cell was lost or changed"
            before = now
        run(plan, folder)
        assert figures(folder) == expected
    shown = [block for block in report_blocks(Results.read(folder)) if not _says_how(block)]
    assert shown == [block for block in report_blocks(Results.read(tmp_path / "1")) if not _says_how(block)]


def _says_how(block):
    """Whether a block shows the clock, which no two runs share."""
    return "last start" in str(block)


# 16 cells on two workers
COMMAND = [sys.executable, "-m", "experiments", "run", "table2", "--dataset", "covertype-mini"]
COMMAND += ["-m", "LogisticBaseline", "-m", "DUA", "--runs", "4", "-j", "2", "-o", "out"]


def test_the_command_with_two_workers_is_killed_and_goes_on(tmp_path):
    process = _start_command(tmp_path, lines=4)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    _check_that_it_goes_on(tmp_path, at_least=3)
    _wait_until_gone(process.pid)


@pytest.mark.parametrize("lines", [1, 4], ids=["as workers start", "as they work"])
def test_ctrl_c_ends_the_command_at_once_with_a_line_and_it_goes_on(tmp_path, lines):
    process = _start_command(tmp_path, lines)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the runner and to its workers
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    # On a slow machine, lines about the progress come before.
    assert (
        err.splitlines()[-1] == "Interrupted. Finished cells are kept; run the same command again to resume."
    )
    # A worker that is interrupted before it has loaded anything of ours prints what its library has to say.
    assert not out or "LokyProcess" in out
    assert "Traceback" not in err
    _check_that_it_goes_on(tmp_path, at_least=lines - 1)  # the first line says what was started
    _wait_until_gone(process.pid)


def test_ctrl_c_that_another_thread_receives_waits_until_the_workers_have_started():
    started = []

    def start_while_another_thread_receives_it():
        may_end = threading.Event()
        other = threading.Thread(target=may_end.wait)
        other.start()
        try:
            with _starting_workers():
                signal.pthread_kill(other.ident, signal.SIGINT)
                for _ in range(1_000):  # Python looks for signals between any two of these
                    time.sleep(0)
                started.append(True)
        finally:
            may_end.set()
            other.join()

    with pytest.raises(KeyboardInterrupt):
        start_while_another_thread_receives_it()
    assert started


def _start_command(folder, lines):
    """Start the command in a session of its own, and wait until its journal has so many lines."""
    process = subprocess.Popen(
        COMMAND,
        cwd=folder,
        env=ENVIRONMENT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background may have Ctrl-C ignored, which processes inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    journal = folder / "out" / NAME
    while process.poll() is None and not (
        journal.exists() and len(journal.read_bytes().splitlines()) >= lines
    ):
        time.sleep(0.01)
    return process


def _check_that_it_goes_on(folder, at_least):
    before = figures(folder / "out")
    assert at_least <= len(before) < 16
    again = subprocess.run(COMMAND, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert f"{16 - len(before)} cells done, 0 failed, {len(before)} already finished" in again.stdout
    after = figures(folder / "out")
    assert len(after) == 16
    assert before.items() <= after.items()


def _wait_until_gone(session):
    """Workers whose runner was killed must not stay behind."""
    for _ in range(2_400):
        left = subprocess.run(
            ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
        )
        if not left.stdout.strip():
            return
        time.sleep(0.05)
    pytest.fail(f"left behind: {left.stdout}")


def test_two_runners_on_one_folder_do_not_disturb_each_other(undisturbed, tmp_path):
    plan, expected, _ = undisturbed
    folder = tmp_path / "shared"
    first, second = killable.start(plan, folder), killable.start(plan, folder)
    first.join()
    second.join()
    assert sorted((first.exitcode, second.exitcode)) == [0, 1]
    assert "another benchmark is writing to" in (tmp_path / "message.txt").read_text()
    assert figures(folder) == expected


def test_a_file_that_cannot_grow_gives_a_clear_error_and_a_usable_folder(undisturbed, tmp_path):
    plan, expected, _ = undisturbed
    folder = tmp_path / "limited"
    process = killable.start(plan, folder, most_bytes=6_000)
    process.join()
    assert process.exitcode == 1
    message = (tmp_path / "message.txt").read_text()
    assert "cannot write to" in message
    assert "run the same command again" in message
    kept = figures(folder)
    assert 0 < len(kept) < len(expected)
    assert (folder / NAME).read_bytes().endswith(b"\n")
    assert kept.items() <= expected.items()
    assert run(plan, folder).done == len(expected) - len(kept)
    assert figures(folder) == expected


@pytest.fixture
def tiny_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_gives_a_clear_error_and_a_usable_folder(undisturbed, tiny_disk):
    plan, expected, _ = undisturbed
    with pytest.raises(OSError, match=r"No space left on device.*run the same command again"):
        run(plan, tiny_disk / "out")
    kept = figures(tiny_disk / "out")
    assert 0 < len(kept) < len(expected)
    subprocess.run(["mount", "-o", "remount,size=1m", str(tiny_disk)], check=True)
    assert run(plan, tiny_disk / "out").done == len(expected) - len(kept)
    assert figures(tiny_disk / "out") == expected
    assert len(read_journal(tiny_disk / "out")) == len(expected) + 2  # two starts


class KillAWorker:
    """A listener that kills one of the local workers once, after a few cells."""

    def __init__(self):
        self.killed = None

    def __call__(self, progress):
        if progress.over == 3:
            listed = subprocess.run(
                ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())],
                capture_output=True,
                text=True,
                check=True,
            )
            workers = [line.split()[0] for line in listed.stdout.splitlines() if "LokyProcess" in line]
            self.killed = int(workers[0])
            os.kill(self.killed, signal.SIGKILL)


def test_a_killed_worker_does_not_stop_the_run(undisturbed, tmp_path):
    plan, expected, _ = undisturbed
    listener = KillAWorker()
    summary = run(plan, tmp_path, jobs=2, listener=listener)
    assert listener.killed is not None
    assert (summary.done, summary.failed) == (len(expected), 0)
    assert figures(tmp_path) == expected
