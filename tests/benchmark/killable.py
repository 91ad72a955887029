"""A runner in a process of its own, forked from a server that has everything imported already."""

import multiprocessing
import resource

import dplan.detectors.baselines
import dplan.detectors.devnet
import dplan.detectors.iforest  # noqa: F401 - imported once in the server
from dplan.benchmark.configuration import versions
from dplan.benchmark.running import run

versions()  # reads all sources: once is enough

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["killable"])


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
