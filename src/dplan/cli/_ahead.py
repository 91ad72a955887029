"""Compile on a second core what a command will need, from before its table is read.

A helper process does the same work with a tiny table. Both compile into one cache and each kernel is compiled by one of
them (`dplan._kernels.sharing`), so they share the work in whatever order they meet it. The helper writes nothing else,
and ends with the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import click

__all__ = ["compile_ahead"]


def compile_ahead(job: str, name: str = "") -> None:
    """Start a helper, unless this machine has compiled before, has one core, or nothing can be shared.

    Parameters
    ----------
    job : str
        What the command will do: "fit" or "explain".
    name : str
        The detector to fit, in upper or lower case.
    """
    from dplan._kernels import cache, sharing

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2 or not sharing.POSSIBLE or cache.place().kind not in cache.WRITABLE:
        return
    if all(cache.is_cached(kernel) for kernel in _kernels(job)):
        return
    nowhere = subprocess.DEVNULL
    helper = subprocess.Popen(
        [sys.executable, "-m", "dplan.cli._ahead", job, name], stdin=nowhere, stdout=nowhere, stderr=nowhere
    )
    click.get_current_context().call_on_close(lambda: _end(helper))


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.terminate()  # what it has compiled so far is stored
    helper.wait()


def _kernels(job: str) -> list[Any]:
    """Return kernels that are compiled early; if they are in the cache, so are the others, almost always."""
    if job == "explain":
        from dplan._kernels import replaced, replaced_trees

        return [replaced._mean_nearest, replaced_trees._leave]
    from dplan._kernels import scaling

    return [scaling.scale_rows]


def _fit(name: str) -> None:
    import numpy as np

    from dplan.detectors._registry import list_detectors
    from dplan.detectors._rows import Labelling
    from dplan.detectors.dplan import DPLAN

    entry = next((one for one in list_detectors() if one.name.casefold() == name.casefold()), None)
    if entry is None:
        return
    rng, y = np.random.default_rng(0), (np.arange(200) < 10).astype(np.int64)
    X = rng.random((200, 3), dtype=np.float32)
    once: dict[str, Any] = {
        "random_state": 0,
        "callback": lambda *_: True,
    }  # one round of training runs every kernel
    if hasattr(entry.detector, "warmup_steps"):
        # An agent: the command meets the kernels of its steps last, and they take longest, so they come first here,
        # even before scikit-learn is imported.
        DPLAN(intrinsic_reward=False, **once)._train_on_scaled(X, Labelling(y), rng)
    entry.create(**once).fit(X, y)


def _explain(_name: str) -> None:
    import numpy as np

    from dplan._kernels import perceptron, replaced, replaced_trees, trees

    rows, background = np.zeros((2, 1, 1), dtype=np.float32)
    replacing = (rows, background, np.zeros(1, dtype=np.int64), 1)
    leaves, features = np.zeros((1, 2), dtype=np.float32), np.zeros((1, 1), dtype=np.int32)
    stump = trees.complete_trees(features, rows, leaves)
    replaced_trees.tree_changes(stump, np.ones(1), *replacing)
    replaced_trees.forest_changes(stump, 1.0, 1.0, *replacing)
    replaced.neighbour_changes(rows[None], *replacing)
    sizes = perceptron.layer_sizes(1, (1,), 1)
    replaced.network_changes(np.zeros(perceptron.n_parameters(sizes), dtype=np.float32), sizes, *replacing)


if __name__ == "__main__":
    {"fit": _fit, "explain": _explain}[sys.argv[1]](sys.argv[2])
