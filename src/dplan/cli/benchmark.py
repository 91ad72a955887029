"""``dplan benchmark``: the paper in one command.

Commands import what they need when they run, so that ``dplan --help`` answers at once.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

__all__ = ["benchmark"]

_SUITE_NAMES = ("table2", "known-classes", "pollution", "ablation", "steps", "dimensions", "speed")
_INTERRUPTED = 130  # what shells report of a command that Ctrl-C has ended
# The mark keeps click from filling the lines of a paragraph.
_SUITES_AND_EXAMPLES = """\b
Suites:
  table2         Table 2: 13 data sets, six methods
  known-classes  Figure 2: one to six known anomaly classes
  pollution      Figure 3: 2 to 12 % anomalies among the unlabelled rows
  ablation       Table 3: DPLAN's variants
  steps          Figure 4: 100,000 training steps
  dimensions     Figure 5: 10 to 320 hidden units
  speed          seconds to fit and to score, one cell at a time
  all            all of these

\b
Examples:
  dplan benchmark run --quick
  dplan benchmark run table2 --protocol fixed --protocol resampled --jobs 2 -o results
  dplan benchmark run all --data-home my-data --jobs 2 -o results
"""


@click.group()
def benchmark() -> None:
    """Repeat the paper's experiments and compare."""


@benchmark.command(epilog=_SUITES_AND_EXAMPLES)
@click.argument("suites", nargs=-1, type=click.Choice([*_SUITE_NAMES, "all"]), metavar="[SUITE]...")
@click.option(
    "-m",
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    help="A detector or a variant of DPLAN, or `every` for all detectors; may be given several times.  "
    "[default: those of the paper]",
)
@click.option("--runs", type=click.IntRange(min=1), help="Seeds per cell.  [default: 10; with --quick 2]")
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice(["fixed", "resampled"]),
    help="`fixed`: only the detector's seed varies over runs; `resampled`: the rows, too; may be given twice.  "
    "[default: resampled]",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="Only scenarios of this data set; may be given several times.  [default: the paper's four]",
)
@click.option(
    "--data-home",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the data sets.  [default: $DPLAN_DATA_HOME, else the platform's cache folder]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("benchmark-output"),
    show_default=True,
    help="Folder of the journal. A restarted command goes on where it stopped.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes."
)
@click.option(
    "--backend",
    type=click.Choice(["joblib", "dask"]),
    default="joblib",
    show_default=True,
    help="Where to run.",
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
    """Run the cells of SUITE that the output folder does not have yet."""
    if not suites and not quick:
        raise click.UsageError("name a suite, or `all`, or give --quick")
    if (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together")
    from rich.console import Console

    from dplan.benchmark import backends
    from dplan.benchmark import runner as running
    from dplan.benchmark.progress import LiveProgress
    from dplan.benchmark.suites import EMBEDDED, PAPER_DATASETS, Plan
    from dplan.detectors._registry import list_detectors

    if "every" in methods:
        methods = tuple(entry.name for entry in list_detectors())
    console = Console(stderr=True)
    try:
        plan = Plan(
            suites=_SUITE_NAMES if not suites or "all" in suites else tuple(dict.fromkeys(suites)),
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
        click.echo("Interrupted. Finished cells are kept: the same command goes on from here.", err=True)
        raise SystemExit(_INTERRUPTED) from None
    click.echo(
        f"{summary.done:,} cells done, {summary.failed:,} failed, {summary.skipped:,} finished before, "
        f"in {summary.seconds:.0f} s"
        + (f"; overhead of the runner {summary.overhead:.1%}" if summary.done else "")
    )
    click.echo(f"Now: dplan benchmark report {shlex.quote(str(output))}")
    if summary.failed:
        raise click.ClickException(
            f"{summary.failed:,} cells failed; the report and {output}/journal.jsonl say why. "
            "The same command tries them again."
        )


@benchmark.command(epilog="\b\nExample:\n  dplan benchmark report results -o docs --name results")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the pages.  [default: FOLDER]",
)
@click.option("--name", default="report", show_default=True, help="Name of the pages without its ending.")
def report(folder: Path, output: Path | None, name: str) -> None:
    """Write an HTML and a Markdown page from the journal in FOLDER.

    The HTML page holds everything and needs no network. A benchmark may still be running.
    """
    from dplan.benchmark.report.pages import write_report

    for page in write_report(folder, output, name):
        click.echo(f"Wrote {page}")


def _command_line() -> str:
    # The home folder of whoever ran it is nobody's business: the command can be given anywhere.
    return shlex.join(["dplan", *sys.argv[1:]]).replace(str(Path.home()), "~")
