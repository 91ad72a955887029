"""Repeat the paper's experiments and compare with published results: ``python -m experiments run|report|check``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli._options import FOLDER
from dplan.cli._terminal import INTERRUPTED, Commands, echo, examples, progress_bar

if TYPE_CHECKING:
    from experiments.runner import Progress

__all__ = ["main"]

DATA_HOME = "Folder with the data sets.  [default: $DPLAN_DATA_HOME, else the platform's cache folder]"

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

        titles = [(name, suite.title) for name, suite in SUITES.items()]
        with formatter.section("Suites"):
            formatter.write_dl([*titles, ("all", "all experiments of the paper")])
        super().format_epilog(ctx, formatter)


def _once(_: click.Context, __: click.Parameter, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(given))


_several = partial(click.option, multiple=True, callback=_once)
_COUNT = click.IntRange(min=1)
_DATASETS = "Data set or table to run; may be repeated.  [default: all of the suite]"
_LABELS = "Labelled rows, for suites about few labels; may be repeated.  [default: as in the suite]"
_METHODS = "A detector, a variant of DPLAN, or `every` for all detectors; may be repeated.  [default: as in the paper]"
_OUTPUT = "Folder for the results. Run the same command again to resume an interrupted run."
_PER_REFIT = "Verdicts between two refits, for the suite discovery; may be repeated.  [default: 10 and 1]"
_PROTOCOLS = (
    "`fixed`: only the detector's seed varies between runs; `resampled`: the rows vary as well; may be repeated.  "
    "[default: resampled]"
)
_VERDICTS = "Verdicts of a review, for the suite discovery.  [default: 300; with --quick 50]"


@click.command(cls=_WithSuites, epilog=_EXAMPLES)
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@_several("-m", "--method", "methods", metavar="NAME", help=_METHODS)
@click.option(
    "--runs", type=_COUNT, help="Number of seeds.  [default: 10; adgym and after-review 3; with --quick 2]"
)
@click.option(
    "--first-seed", type=click.IntRange(min=0), help="First seed.  [default: 0; adgym and after-review 1]"
)
@_several("--labels", type=click.IntRange(min=0), help=_LABELS)
@_several("--per-refit", type=_COUNT, help=_PER_REFIT)
@click.option("--verdicts", type=_COUNT, help=_VERDICTS)
@_several("--protocol", "protocols", type=click.Choice(["fixed", "resampled"]), help=_PROTOCOLS)
@_several("--dataset", "datasets", metavar="NAME", help=_DATASETS)
@click.option("--data-home", type=FOLDER, help=DATA_HOME)
@click.option("-o", "--output", type=FOLDER, default="benchmark-output", show_default=True, help=_OUTPUT)
@click.option("-j", "--jobs", type=_COUNT, default=1, show_default=True, help="Worker processes.")
@click.option(
    "--quick", is_flag=True, help="Use the embedded data, 2 seeds and fewer points; takes about a minute."
)
def run(suites: tuple[str, ...], data_home: Path | None, output: Path, jobs: int, **chosen: Any) -> None:
    """Run the cells of each SUITE that are not in the output folder yet.

    A cell is one method, fitted once on one data set with one seed.
    """
    if not suites and not chosen["quick"]:
        raise click.UsageError("name a suite, use `all`, or add --quick")
    from dplan.detectors._registry import list_detectors
    from experiments import runner
    from experiments.suites import PAPER_SUITES, Plan

    if "every" in chosen["methods"]:
        chosen["methods"] = tuple(entry.name for entry in list_detectors())
    chosen["runs"] = chosen["runs"] or (2 if chosen["quick"] else None)
    chosen["protocols"] = chosen["protocols"] or ("resampled",)
    try:
        plan = Plan(PAPER_SUITES if not suites or "all" in suites else tuple(dict.fromkeys(suites)), **chosen)
        with progress_bar() as show:
            command = _command_line(data_home)
            summary = runner.run(
                plan, output, home=data_home, jobs=jobs, command=command, listener=partial(_tell, show)
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
    "--rerun", type=click.IntRange(0), default=0, show_default=True, help="Cells to run again and compare."
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


def _tell(show: Callable[[str, int, int | None], None], progress: Progress) -> None:
    """Show how many cells are done, and every failure."""
    cell, outcome = progress.cell, progress.outcome
    if cell is None and progress.skipped:
        echo(f"{progress.skipped:,} cells already finished, {progress.total:,} remaining", err=True)
    if cell is not None and outcome["status"] == "failed":
        place = f"{cell.suite}, {cell.method} on {cell.scenario}, seed {cell.seed}"
        echo(f"failed: {place}: {outcome['error']}", err=True)
    show("Running cells", progress.over, progress.total)


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
