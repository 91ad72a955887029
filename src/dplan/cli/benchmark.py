"""``dplan benchmark``: the paper's experiments in one command.

Commands import what they need when they run, so that ``dplan --help`` answers at once.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

__all__ = ["benchmark"]

_INTERRUPTED = 130  # the exit code of a command that was ended by Ctrl-C
_EXAMPLES = """\b
Examples:
  dplan benchmark run --quick
  dplan benchmark run table2 --protocol fixed --protocol resampled --jobs 2 -o results
  dplan benchmark run all --data-home my-data --jobs 2 -o results
"""


@click.group()
def benchmark() -> None:
    """Repeat the paper's experiments and compare the results."""


class _WithSuites(click.Command):
    """A command whose help lists the suites; they are looked up only when they are needed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from dplan.benchmark.suites import SUITES

        with formatter.section("Suites"):
            formatter.write_dl(
                [*((name, suite.title) for name, suite in SUITES.items()), ("all", "all of these")]
            )
        super().format_epilog(ctx, formatter)


@benchmark.command(cls=_WithSuites, epilog=_EXAMPLES)
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@click.option(
    "-m",
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    help="A detector or a variant of DPLAN, or `every` for all detectors; can be repeated.  "
    "[default: the paper's]",
)
@click.option("--runs", type=click.IntRange(min=1), help="Seeds per cell.  [default: 10; with --quick 2]")
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice(["fixed", "resampled"]),
    help="`fixed`: only the detector's seed varies between runs; `resampled`: the rows vary as well; can be repeated.  "
    "[default: resampled]",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="Only scenarios of this data set; can be repeated.  [default: the paper's four]",
)
@click.option(
    "--data-home",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder with the data sets.  [default: $DPLAN_DATA_HOME, else the platform's cache folder]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("benchmark-output"),
    show_default=True,
    help="Folder for the results. Running the same command again resumes where it stopped.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes."
)
@click.option(
    "--backend",
    type=click.Choice(["joblib", "dask"]),
    default="joblib",
    show_default=True,
    help="Where the workers run: on this machine or on a Dask cluster.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Address of the Dask scheduler.")
@click.option("--quick", is_flag=True, help="The embedded data, 2 runs, fewer points: about a minute.")
def run(
    suites: tuple[str, ...],
    methods: tuple[str, ...],
    runs: int | None,
    protocols: tuple[str, ...],
    datasets: tuple[str, ...],
    data_home: Path | None,
    output: Path,
    jobs: int,
    backend: str,
    scheduler: str | None,
    quick: bool,
) -> None:
    """Run all cells of SUITE that are not in the output folder yet.

    A cell is one method, fitted once on one data set with one seed.
    """
    if not suites and not quick:
        raise click.UsageError("name a suite, use `all`, or add --quick")
    if (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS must be used together")
    from rich.console import Console

    from dplan.benchmark import backends
    from dplan.benchmark import runner as running
    from dplan.benchmark.progress import LiveProgress
    from dplan.benchmark.suites import EMBEDDED, PAPER_DATASETS, SUITES, Plan
    from dplan.detectors._registry import list_detectors

    if "every" in methods:
        methods = tuple(entry.name for entry in list_detectors())
    console = Console(stderr=True)
    try:
        plan = Plan(
            suites=tuple(SUITES) if not suites or "all" in suites else tuple(dict.fromkeys(suites)),
            methods=methods,
            runs=runs or (2 if quick else 10),
            protocols=tuple(dict.fromkeys(protocols)) or ("resampled",),
            datasets=datasets or (EMBEDDED if quick else PAPER_DATASETS),
            quick=quick,
        )
        where = backends.on_dask(scheduler) if scheduler else backends.on_processes(jobs)
        with LiveProgress(console, jobs) as progress:
            summary = running.run(
                plan,
                output,
                home=data_home,
                backend=where,
                workers=jobs,
                command=_command_line(),
                listener=progress,
            )
    except KeyboardInterrupt:
        click.echo("Interrupted. Finished cells are kept; run the same command again to continue.", err=True)
        raise SystemExit(_INTERRUPTED) from None
    click.echo(
        f"{summary.done:,} cells done, {summary.failed:,} failed, {summary.skipped:,} finished before, "
        f"in {summary.seconds:.0f} s"
        + (f"; overhead of the runner {summary.overhead:.1%}" if summary.done else "")
    )
    click.echo(f"Next: dplan benchmark report {shlex.quote(str(output))}")
    if summary.failed:
        raise click.ClickException(
            f"{summary.failed:,} cells failed; the report and {output}/journal.jsonl show why. "
            "Run the same command again to retry them."
        )


@benchmark.command(epilog="\b\nExample:\n  dplan benchmark report results -o docs --name results")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the pages.  [default: FOLDER]",
)
@click.option(
    "--name", default="report", show_default=True, help="File name of the pages without the extension."
)
def report(folder: Path, output: Path | None, name: str) -> None:
    """Write an HTML and a Markdown report about the results in FOLDER.

    The HTML page is self-contained and needs no network. The benchmark may still be running.
    """
    from dplan.benchmark.report.pages import write_report

    for page in write_report(folder, output, name):
        click.echo(f"Wrote {page}")


def _command_line() -> str:
    # The user's home folder is private, and the command works anywhere.
    return shlex.join(["dplan", *sys.argv[1:]]).replace(str(Path.home()), "~")
