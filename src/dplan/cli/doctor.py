"""``dplan doctor``: check the installation and warm up the kernel cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dplan.cli._terminal import echo, examples

if TYPE_CHECKING:
    from dplan.detectors._registry import Entry

_PACKAGES = ("dplan-ad", "numpy", "scipy", "numba", "scikit-learn", "polars", "threadpoolctl")


@click.command(
    short_help="Check the installation; compile all kernels.",
    epilog=examples("dplan doctor", "dplan doctor --warm-up"),
)
@click.option(
    "--warm-up", is_flag=True, help="Compile all kernels now, so that later processes start faster."
)
def doctor(warm_up: bool) -> None:
    """Check the installation: versions, the cache of compiled kernels, BLAS, threads and cores.

    The exit code is 1 if there is a problem. --warm-up compiles everything that fitting, scoring, explaining and
    reporting need, for every detector. Use it once per machine, or when you build a container image.
    """
    for line in (*_versions(), *_processors()):
        echo(line)
    if warm_up:
        _warm_up()
    problems = list(_problems())
    echo(_cache_line())
    for problem in problems:
        echo(f"Problem: {problem}")
    if problems:
        raise click.exceptions.Exit(1)
    echo("No problems found.")


def _versions() -> Iterator[str]:
    import platform
    from importlib.metadata import version

    yield f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield ", ".join(f"{name} {version(name)}" for name in _PACKAGES)


def _processors() -> Iterator[str]:
    import os

    import scipy.linalg.cython_blas  # noqa: F401 - the BLAS that kernels multiply with
    import threadpoolctl

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield f"Processor cores: {usable} of {os.cpu_count()} usable"
    for library in threadpoolctl.threadpool_info():
        kernel = f" for {library['architecture']}" if library.get("architecture") else ""
        name = f"{library['internal_api']} {library.get('version') or ''}".strip()
        yield f"{library['user_api'].upper()}: {name}{kernel}, {library['num_threads']} threads, {library['filepath']}"


def _cache_line() -> str:
    from dplan._kernels.cache import Kind, place

    found = place()
    if found.kind is Kind.NONE:
        return "Kernel cache: none"
    return f"Kernel cache: {found.folder} ({found.kind.value}), {found.n_kernels()} kernels"


def _problems() -> Iterator[str]:
    """Yield the problems, each with a remedy."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    from dplan._kernels.cache import ADVICE, Kind, place

    for text in requires("dplan-ad") or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            yield f"{requirement.name} is not installed. Run  pip install '{text}'"
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name} {installed} is installed, {requirement} is needed. Run  pip install '{text}'"
    if place().kind is Kind.NONE:
        yield f"compiled kernels cannot be cached, so every process compiles them again. {ADVICE}"


def _warm_up() -> None:
    """Use every detector once on a small table."""
    from dplan.detectors._registry import list_detectors

    for entry in list_detectors():
        started = time.perf_counter()
        _use(entry)
        echo(f"Warmed up {entry.name} in {time.perf_counter() - started:.1f} s")


def _use(entry: Entry) -> None:
    """Fit, score and explain with a detector as commands do, and as Python users do with float32 and float64."""
    import numpy as np
    import polars as pl

    from dplan.report.data import report_data
    from dplan.scoring.scorer import Scorer
    from dplan.tables import fit_table, from_table
    from dplan.tables.chunks import Chunk

    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (np.arange(600) < 20).astype(np.int64)
    X[:20] += 3
    detector = entry.create(random_state=0)
    for table in (X, X.astype(np.float32)):
        detector.fit(table, y).anomaly_score(table)
    frame = pl.DataFrame(X, schema=[f"x{i}" for i in range(4)])
    model = fit_table(from_table(frame.with_columns(y=y), "y"), entry.create(random_state=0))
    report_data(Scorer(model), [Chunk(lambda: frame)])
