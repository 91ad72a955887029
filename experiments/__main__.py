"""Repeat the paper's experiments and compare with published results: ``python -m experiments run|report|check``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli._shared import DATA_HOME, FOLDER, INTERRUPTED, Commands, echo, examples, progress_bar

if TYPE_CHECKING:
    from experiments.cells import Cell

__all__ = ["main"]

_EXAMPLES = examples(
    "python -m experiments run --quick",
    "python -m experiments run table2 --protocol fixed --protocol resampled --jobs 2 -o results/paper",
    "python -m experiments run all --data-home my-data --jobs 2 -o results/paper",
    "python -m experiments run adgym --data-home ADBench/datasets/Classical -o results/adgym",
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Repeat the paper's experiments and others, and compare with published results."""


class _WithSuites(click.Command):
    """A command whose help lists the suites."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from experiments.suites import SUITES

        with formatter.section("Suites"):
            formatter.write_dl(
                [
                    *((name, suite.title) for name, suite in SUITES.items()),
                    ("all", "all experiments of the paper"),
                ]
            )
        super().format_epilog(ctx, formatter)


@click.command(cls=_WithSuites, epilog=_EXAMPLES)
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@click.option(
    "-m",
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    help="A detector, a variant of DPLAN, or `every` for all detectors; may be repeated.  "
    "[default: as in the paper]",
)
@click.option(
    "--runs", type=click.IntRange(min=1), help="Number of seeds.  [default: 10; adgym 3; with --quick 2]"
)
@click.option("--first-seed", type=click.IntRange(min=0), help="First seed.  [default: 0; adgym 1]")
@click.option(
    "--labels",
    multiple=True,
    type=click.IntRange(min=1),
    help="Labelled rows, for suites about few labels; may be repeated.  [default: as in the suite]",
)
@click.option(
    "--per-refit",
    multiple=True,
    type=click.IntRange(min=1),
    help="Verdicts between two refits, for the suite discovery; may be repeated.  [default: 10 and 1]",
)
@click.option(
    "--verdicts",
    type=click.IntRange(min=1),
    help="Verdicts of a review, for the suite discovery.  [default: 300; with --quick 50]",
)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice(["fixed", "resampled"]),
    help="`fixed`: only the detector's seed varies between runs; `resampled`: the rows vary as well; may be repeated.  "
    "[default: resampled]",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="Data set or table to run; may be repeated.  [default: all of the suite]",
)
@click.option("--data-home", type=FOLDER, help=DATA_HOME)
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("benchmark-output"),
    show_default=True,
    help="Folder for the results. Run the same command again to resume an interrupted run.",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes."
)
@click.option(
    "--quick", is_flag=True, help="Use the embedded data, 2 seeds and fewer points; takes about a minute."
)
def run(
    suites: tuple[str, ...],
    methods: tuple[str, ...],
    runs: int | None,
    first_seed: int | None,
    labels: tuple[int, ...],
    per_refit: tuple[int, ...],
    verdicts: int | None,
    protocols: tuple[str, ...],
    datasets: tuple[str, ...],
    data_home: Path | None,
    output: Path,
    jobs: int,
    quick: bool,
) -> None:
    """Run the cells of each SUITE that are not in the output folder yet.

    A cell is one method, fitted once on one data set with one seed.
    """
    if not suites and not quick:
        raise click.UsageError("name a suite, use `all`, or add --quick")
    from dplan.detectors._registry import list_detectors
    from experiments import runner
    from experiments.suites import PAPER_SUITES, Plan

    if "every" in methods:
        methods = tuple(entry.name for entry in list_detectors())
    try:
        plan = Plan(
            suites=PAPER_SUITES if not suites or "all" in suites else tuple(dict.fromkeys(suites)),
            methods=methods,
            runs=runs or (2 if quick else None),
            first_seed=first_seed,
            labels=tuple(dict.fromkeys(labels)),
            per_refit=tuple(dict.fromkeys(per_refit)),
            verdicts=verdicts,
            protocols=tuple(dict.fromkeys(protocols)) or ("resampled",),
            datasets=tuple(dict.fromkeys(datasets)),
            quick=quick,
        )
        with progress_bar() as show:
            summary = runner.run(
                plan,
                output,
                home=data_home,
                jobs=jobs,
                command=_command_line(data_home),
                listener=_Listener(show),
            )
    except KeyboardInterrupt:
        echo("Interrupted. Finished cells are kept; run the same command again to resume.", err=True)
        raise SystemExit(INTERRUPTED) from None
    echo(
        f"{summary.done:,} cells done, {summary.failed:,} failed, {summary.skipped:,} already finished, "
        f"in {summary.seconds:.0f} s" + (f"; runner overhead {summary.overhead:.1%}" if summary.done else "")
    )
    echo(f"Next: python -m experiments report {shlex.quote(str(output))}")
    if summary.failed:
        raise click.ClickException(
            f"{summary.failed:,} cells failed; the report and {output}/journal.jsonl show why. "
            "Run the same command again to retry them."
        )


@click.command(
    epilog=examples("python -m experiments report experiments/results/paper -o docs --name results")
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=FOLDER, help="Folder for the pages.  [default: FOLDER]")
@click.option("--name", default="report", show_default=True, help="File name of the pages without extension.")
@click.option("--data-home", type=FOLDER, help=f"{DATA_HOME} Published results of adgym are read from it.")
def report(folder: Path, output: Path | None, name: str, data_home: Path | None) -> None:
    """Write an HTML and a Markdown report about the results in FOLDER.

    The HTML page is self-contained. The benchmark may still be running.
    """
    from experiments.pages import write_report

    for page in write_report(folder, output, name, data_home):
        echo(f"Wrote {page}")


@click.command(epilog=examples("python -m experiments check experiments/results/unknown --rerun 5"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--data-home", type=FOLDER, help=DATA_HOME)
@click.option(
    "--rerun",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Cells to run again and compare.",
)
def check(folder: Path, data_home: Path | None, rerun: int) -> None:
    """Check the results in FOLDER: cells, metrics, data, and the rows behind a sample of the cells.

    The exit code is 0 if nothing is wrong, even if cells are missing.
    """
    from experiments.checking import check as check_results

    checked = check_results(folder, data_home, rerun)
    for problem in checked.problems:
        echo(problem)
    for (suite, method), count in checked.missing.items():
        echo(f"{suite}: {method} lacks {count:,} cells")
    echo(f"{checked.n_cells:,} cells checked, {len(checked.problems):,} problems found")
    if checked.problems:
        raise SystemExit(1)


class _Listener:
    """Shows how many cells are done, and every failure."""

    def __init__(self, show: Callable[[str, int, int | None], None]) -> None:
        self._show, self._over, self._total = show, 0, 0

    def start(self, cells: Sequence[Cell], skipped: int) -> None:
        """Show how many cells there are."""
        if skipped:
            echo(f"{skipped:,} cells already finished, {len(cells):,} remaining", err=True)
        self._total = len(cells)
        self._show("Running cells", 0, self._total)

    def finish(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Count a cell."""
        if outcome["status"] == "failed":
            place = f"{cell.suite}, {cell.method} on {cell.scenario}, seed {cell.seed}"
            echo(f"failed: {place}: {outcome['error']}", err=True)
        self._over += 1
        self._show("Running cells", self._over, self._total)


def _command_line(data_home: Path | None) -> str:
    """Return the command without the folders that lead to the data, which are private."""
    arguments = [
        argument.replace(str(data_home), data_home.name)
        if data_home and data_home.is_absolute()
        else argument
        for argument in sys.argv[1:]
    ]
    return shlex.join(["python", "-m", "experiments", *arguments]).replace(str(Path.home()), "~")


for command in (run, report, check):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="python -m experiments")
