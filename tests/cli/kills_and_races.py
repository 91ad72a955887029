"""Commands that are killed, or that write one output at the same time: run as a script, it prints what it counted.

    python -m tests.cli.kills_and_races kills 150 FOLDER
    python -m tests.cli.kills_and_races races 200 FOLDER

Each command runs in a fork of this process, in which everything is imported and compiled, so that hundreds of runs take
minutes. This process itself never uses polars, whose threads would not survive the fork.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

import dplan.report.page
import dplan.scoring.table
import dplan.tables.onnx
import dplan.tables.updating  # noqa: F401
from dplan import DPLAN
from dplan.cli.main import main
from dplan.explain import effects
from dplan.tables.model import TableModel

FITTING = ["--label", "verdict", "--anomaly", "fraud", "--id", "payment", "--no-estimate"]


def warm_up(path):
    """Load and compile what the commands need."""
    model = TableModel.load(path)
    effects(model.detector, model.background[:2], model.background)
    y = np.arange(len(model.background)) < 20
    trained = DPLAN(n_steps=200, warmup_steps=100, n_trees=5).fit(model.background, y)
    trained.partial_fit(model.background, y)
    trained.anomaly_score(model.background)


def started(arguments, delay=0.0):
    """Run a command in a fork; its messages go to a file beside its output."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background process may ignore
    time.sleep(delay)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        try:
            main([*map(str, arguments), "--overwrite"], standalone_mode=True)
        except SystemExit as end:
            os._exit(end.code or 0)
        finally:
            os._exit(1)


def ended(pid):
    """Wait for a command and return its exit code, or the signal that ended it, as a negative number."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finished(arguments):
    code = ended(started(arguments))
    assert code == 0, f"{arguments} ended with {code}"


def content(path):
    """Return what a file or folder holds; of a model, what does not depend on the time that training took."""
    if path.is_dir():
        return {part.name: part.read_bytes() for part in sorted(path.iterdir())}
    if path.suffix != ".dplan":
        return path.read_bytes() if path.exists() else None
    model = TableModel.load(path)  # whole: its digest is right
    summary = {
        name: value for name, value in model.summary.to_json().items() if name not in ("seconds", "updates")
    }
    scores = model.detector.anomaly_score(model.background)
    return json.dumps(summary), model.background.tobytes(), model.known_anomalies.tobytes(), scores.tobytes()


def copied(source, target):
    shutil.rmtree(target, ignore_errors=True)
    target.unlink(missing_ok=True) if not source.is_dir() else None
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def kills(n, folder, rng):
    """Kill each command at random moments; the output must be old or new, and the same again after a rerun."""
    table, parts, old_model, model = (folder / name for name in ("in.csv", "parts", "old.dplan", "new.dplan"))
    commands = {
        "fit": ("fit.dplan", lambda own, out: ["fit", table, *FITTING, "-o", out, *own["settings"]]),
        "score": ("score.csv", lambda own, out: [
            "score", table, "-m", own["model"], "-o", out, "--budget", 30, "--explain", "--chunk-rows", 200]),
        "score a folder": ("scored", lambda own, out: [
            "score", parts, "-m", own["model"], "-o", out, "--chunk-rows", 150]),
        "update": ("update.dplan", lambda own, out: [
            "update", own["model"], table, "--anomaly", "fraud", "-o", out]),
        "report": ("report.html", lambda own, out: ["report", own["model"], table, "-o", out]),
        "export": ("export.onnx", lambda own, out: ["export", own["model"], "--onnx", out]),
    }  # fmt: skip
    tiny = ["--detector", "DPLAN", "--set", "n_steps=300", "--set", "warmup_steps=100", "--set", "n_trees=5"]
    olds = {"model": old_model, "settings": [*tiny, "--seed", 1]}
    news = {"model": model, "settings": [*tiny, "--seed", 2]}
    expected, seconds = {}, {}
    for name, (output, arguments) in commands.items():
        for which, own in (("old", olds), ("new", news)):
            target = folder / which / output
            target.parent.mkdir(exist_ok=True)
            begun = time.perf_counter()
            finished(arguments(own, target))
            seconds[name] = time.perf_counter() - begun
            expected[name, which] = content(target)
        assert expected[name, "old"] != expected[name, "new"], name
    counts = {"killed": 0, "old": 0, "new": 0, "mixed": 0, "reruns that differ": 0, "left behind": 0}
    place = folder / "place"
    for trial in range(n):
        name = list(commands)[trial % len(commands)]
        output, arguments = commands[name]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        copied(folder / "old" / output, place / output)
        pid = started(arguments(news, place / output))
        time.sleep(rng.uniform(0, 1.1 * seconds[name]))
        os.kill(pid, rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        counts["killed"] += ended(pid) != 0
        found = content(place / output)
        which = next((which for which in ("old", "new") if found == expected[name, which]), "mixed")
        counts[which] += 1
        finished(arguments(news, place / output))
        counts["reruns that differ"] += content(place / output) != expected[name, "new"]
        others = [path.name for path in place.iterdir() if path.name != output]
        counts["left behind"] += sum(not (other.startswith(".") and ".tmp" in other) for other in others)
    return counts


def races(n, folder, rng):
    """Start two commands that write one output; it must be whole and of one of them."""
    table, parts, first, second = (folder / name for name in ("in.csv", "parts", "old.dplan", "new.dplan"))
    forms = {
        "out.csv": lambda model, out: ["score", table, "-m", model, "-o", out, "--chunk-rows", 400],
        "scored": lambda model, out: ["score", parts, "-m", model, "-o", out],
        "out.parquet": lambda model, out: [
            "score",
            table,
            "-m",
            model,
            "-o",
            out,
            "--budget",
            9,
            "--explain",
        ],
        "out.html": lambda model, out: ["report", model, table, "-o", out],
    }
    expected, seconds = {}, {}
    for name, arguments in forms.items():
        for model in (first, second):
            (folder / model.stem).mkdir(exist_ok=True)
            begun = time.perf_counter()
            finished(arguments(model, folder / model.stem / name))
            seconds[name] = time.perf_counter() - begun
            expected[name, model] = content(folder / model.stem / name)
        assert expected[name, first] != expected[name, second]
    counts = {"both written": 0, "one refused": 0, "both refused": 0, "wrong": 0, "left behind": 0}
    place = folder / "place"
    scorings = [name for name in forms if name != "out.html"]
    for trial in range(n):
        # All trials score, but for one in ten.
        name = "out.html" if trial % 10 == 9 else scorings[trial % len(scorings)]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        delays = [0.0, rng.uniform(0, 1.2 * seconds[name])]
        rng.shuffle(delays)
        pids = [
            started(forms[name](model, place / name), delay)
            for model, delay in zip((first, second), delays, strict=True)
        ]
        codes = [ended(pid) for pid in pids]
        refused = sum(code != 0 for code in codes)
        counts[("both written", "one refused", "both refused")[refused]] += 1
        winners = [model for model, code in zip((first, second), codes, strict=True) if code == 0]
        counts["wrong"] += content(place / name) not in [expected[name, model] for model in winners]
        counts["left behind"] += len(list(place.iterdir())) - 1
    return counts


if __name__ == "__main__":
    what, number, where = sys.argv[1:]
    warm_up(Path(where) / "new.dplan")
    begun = time.perf_counter()
    counted = {"kills": kills, "races": races}[what](int(number), Path(where), random.Random(0))
    print(json.dumps({**counted, "seconds": round(time.perf_counter() - begun)}))  # noqa: T201
