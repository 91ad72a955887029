"""What the commands print: errors in one line, text that is safe, warnings, progress bars."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan._kernels.compiling import compiling
from dplan.text import printable

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress

    from dplan.detectors._base import Detector
    from dplan.tables.bad_cells import OnError
    from dplan.tables.writing import Output

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 plus the number of the signal, as in shells
_OBJECTS = 50_000  # new ones between two searches for unused ones


class Commands(click.Group):
    """A group of commands that prints errors as one line on standard error, and on request what it is doing.

    Exit codes are 1 for an error, 2 for wrong usage, 130 after Ctrl-C and 143 after SIGTERM. An unexpected error is
    printed with its traceback.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command or a group, with the options ``--debug`` and, if it writes, ``--quiet`` and ``--verbose``."""
        for command in cmd.commands.values() if isinstance(cmd, click.Group) else [cmd]:
            writes = any(parameter.name == "output" for parameter in command.params)
            for flag, text in _FLAGS.items() if writes else [("debug", _FLAGS["debug"])]:
                option = click.Option(
                    [f"--{flag}"], is_flag=True, expose_value=False, callback=_note, help=text
                )
                command.params.append(option)
        super().add_command(cmd, name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # for a terminal or pipe that cannot show all characters
                stream.reconfigure(errors="backslashreplace")
        with _clean_end(), _few_collections():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        if sys.stderr.isatty():
            compiling.notify = lambda message: say(message, err=True)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except click.ClickException as error:
            error.message = printable(error.message)  # type: ignore[misc]
            raise
        except KeyboardInterrupt as error:
            echo(" ".join(["Interrupted.", *_notes(error)]), err=True)
            ctx.exit(INTERRUPTED)
        except BaseException as error:
            if isinstance(error, SystemExit) and error.code == TERMINATED:
                echo(" ".join(["Terminated.", *_notes(error)]), err=True)
            if ctx.meta.get("debug") or isinstance(error, SystemExit | GeneratorExit):
                raise
            if _expected(error):
                text = " ".join(str(error).split()) or type(error).__name__
                # Polars sets no file name, and neither do our own messages.
                name = getattr(error, "filename", None) or text.partition("(os error 13): ")[2]
                if isinstance(error, PermissionError) and name:
                    text = f"{name}: permission denied; change its permissions or run as another user"
                elif isinstance(error, FileNotFoundError) and error.filename:
                    text = f"file not found: {error.filename}"
                elif isinstance(error, OSError) and error.errno and error.strerror:
                    text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
                raise click.ClickException(printable(text)) from error
            traceback.print_exc()
            echo("Error: this is a bug in dplan; please report it with the lines above.", err=True)
            ctx.exit(1)


_FLAGS = {
    "quiet": "Print only warnings and errors.",
    "verbose": "Print every stage, also on a terminal.",
    "debug": "Show tracebacks.",
}


def _note(ctx: click.Context, option: click.Parameter, chosen: bool) -> None:
    ctx.meta[str(option.name)] = chosen


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _is(flag: str) -> bool:
    ctx = click.get_current_context(silent=True)
    return bool(ctx and ctx.meta.get(flag))


def _expected(error: BaseException) -> bool:
    """Return whether bad input or a bad environment can cause an error, as opposed to a bug."""
    if type(error).__module__.split(".")[0] in ("polars", "pyo3_runtime"):
        return True
    causes = (ValueError, TypeError, OSError, ImportError, MemoryError)
    # Libraries raise plain RuntimeErrors for bad input; its subclasses, such as RecursionError, are bugs.
    return isinstance(error, causes) or type(error) is RuntimeError


@contextmanager
def _few_collections() -> Iterator[None]:
    """Search for unused objects rarely: the libraries that a command imports are hundreds of thousands of used ones."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _clean_end() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that temporary files are removed."""

    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def echo(text: str, *, err: bool = False) -> None:
    """Print one line; names and values from data are safe to print."""
    click.echo(printable(text), err=err)


def say(text: str, *, err: bool = False) -> None:
    """Print one line about what was done, unless the command is quiet."""
    if not _is("quiet"):
        echo(text, err=err)


def status(text: str) -> None:
    """Print one line about what is happening, if no progress bar shows it."""
    if _is("verbose") or not (_is("quiet") or sys.stderr.isatty()):
        echo(text, err=True)


def warn_of_useless(columns: Mapping[str, str]) -> None:
    """Print a warning about columns that differ from the training table, or have no information for the model."""
    if columns:
        listed = [f"{name!r} ({reason})" for name, reason in list(columns.items())[:10]]
        more = f" and {len(columns) - 10:,} more" if len(columns) > 10 else ""
        echo(f"Warning: columns that differ from the training table: {', '.join(listed)}{more}.", err=True)


def warn_of(what: str) -> None:
    """Print a warning, unless there is nothing to warn of."""
    if what:
        echo(f"Warning: {what}.", err=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print what Python code warns of as one line each, without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: warn_of(str(message).rstrip("."))
        yield


def warn_of_bad_cells(bad: Mapping[str, int], errors: Path | None) -> None:
    """Print a warning about cells that could not be used."""
    if bad:
        listed = ", ".join(f"{name!r} ({n:,})" for name, n in list(bad.items())[:10])
        done = "were treated as missing" if errors is None else f"were skipped with their rows; see {errors}"
        echo(f"Warning: cells that cannot be used {done}: {listed}.", err=True)


@contextmanager
def keeping_bad_rows(bad: pl.DataFrame | None, output: Output, on_error: OnError) -> Iterator[None]:
    """Write the rows that were skipped to a file beside the output, which the block writes; warn of their cells."""
    from dplan.tables.bad_cells import errors_written, n_bad_cells

    with errors_written(bad, output, on_error) as errors:
        yield
    warn_of_bad_cells(n_bad_cells(bad), errors)


def examples(*lines: str) -> str:
    """Return the examples at the end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


_SECONDS_BETWEEN_LINES = 10


@contextmanager
def training_progress(detector: Detector) -> Iterator[Callable[[str], None]]:
    """Show the progress of training on a terminal; yield a function that sets the name of the current stage."""
    if not _shows_bars():
        yield lambda name: status(name.capitalize())
        return
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Metrics(ProgressColumn):
        """The latest metrics or, if there are none yet, why training waits."""

        def render(self, task: Task) -> Text:
            waiting = task.completed == 0 and compiling.is_busy
            return Text("compiling (first use only)" if waiting else task.fields["metrics"])

    with _bar(Metrics()) as bar:
        task = bar.add_task("", total=detector._expected_rounds(), metrics="")
        names = {
            "reward": "reward {:.0f}",
            "epsilon": "ε {:.2f}",
            "loss": "loss {:.3g}",
        }

        def advance(_: Detector, metrics: Mapping[str, float]) -> None:
            shown = [
                text.format(metrics[name])
                for name, text in names.items()
                if math.isfinite(metrics.get(name, math.nan))
            ]
            done = int(bar.tasks[task].completed) + 1
            bar.update(task, advance=1, metrics="  ".join([f"{detector.round_name} {done}", *shown]))

        def stage(name: str) -> None:
            status(name.capitalize())
            bar.reset(task, total=detector._expected_rounds(), description=name.capitalize(), metrics="")

        detector.set_params(callback=advance)
        try:
            yield stage
        finally:
            detector.set_params(callback=None)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show progress; yield a function that takes the name of the stage, the steps done and the total.

    Where there is no terminal, a line is printed when a stage begins, and then every ten seconds.
    """
    stage, started, said = "", 0.0, 0.0
    bar: Progress | None = None
    with ExitStack() as stack:
        if _shows_bars():
            from rich.progress import MofNCompleteColumn, TaskProgressColumn

            bar = stack.enter_context(_bar(TaskProgressColumn(), MofNCompleteColumn()))
            bar.add_task("", total=None)

        def update(name: str, done: int, total: int | None) -> None:
            nonlocal stage, started, said
            now = time.monotonic()
            if name != stage:
                stage, started, said = name, now, now
                status(name)
            elif now - said > _SECONDS_BETWEEN_LINES and total and done:
                said, left = now, (now - started) / done * (total - done)
                status(f"{name}: {done / total:.0%}, about {_duration(left)} left")
            if bar is not None:
                bar.update(bar.task_ids[0], description=name, completed=done, total=total)

        yield update


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _shows_bars() -> bool:
    """Return whether progress bars are shown; rich, which draws them, takes a moment to import."""
    return sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR"))


@contextmanager
def _bar(*columns: Any) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    every = (TextColumn("{task.description}", markup=False), BarColumn(), *columns, TimeRemainingColumn())
    with Progress(*every, console=Console(stderr=True), transient=True) as bar:
        yield bar


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds since the block started, without those of compilation."""
    started = compiling.clock()
    yield lambda: compiling.clock() - started
