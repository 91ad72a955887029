"""A runner in a process of its own, forked from a server that has everything imported already."""

import multiprocessing
import resource

import numpy as np

import dplan.detectors.baselines  # noqa: F401 - imported once in the server
from dplan.detectors.devnet import DevNet
from dplan.detectors.iforest import IForest
from experiments.configuration import versions
from experiments.runner import run

# What every runner would do first is done once, in the server: loading compiled kernels.
versions()
_X, _y = np.random.default_rng(0).random((300, 4), dtype=np.float32), np.arange(300) < 5
for _detector in (DevNet(n_epochs=1, random_state=0), IForest(n_estimators=2, random_state=0)):
    _detector.fit(_X, _y).anomaly_score(_X)

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.experiments.killable"])


def start(plan, folder, most_bytes=None):
    """Start a runner; with `most_bytes` no file can grow beyond."""
    process = context.Process(target=_run, args=(plan, folder, most_bytes))
    process.start()
    return process


def _run(plan, folder, most_bytes):
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    try:
        run(plan, folder)
    except OSError as error:
        (folder.parent / "message.txt").write_text(str(error))
        raise SystemExit(1) from error
