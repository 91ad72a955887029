"""What the commands share: errors in one line, text that is safe to print, progress bars."""

from __future__ import annotations

import math
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress

    from dplan.detectors._base import Detector

MODEL = click.Path(exists=True, dir_okay=False, path_type=Path)
TABLE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
OUTPUT = click.Path(path_type=Path)

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 and the number of the signal, as shells count


class Commands(click.Group):
    """The commands: an error is one line on standard error.

    Exit codes are 1 for an error, 2 for a mistyped command, 130 after Ctrl-C and 143 after SIGTERM. An unexpected error
    keeps its traceback.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, or a group of them, with the option ``--debug``."""
        for command in cmd.commands.values() if isinstance(cmd, click.Group) else [cmd]:
            command.params.append(
                click.Option(
                    ["--debug"], is_flag=True, expose_value=False, callback=_debug, help="Show tracebacks."
                )
            )
        super().add_command(cmd, name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal or pipe that cannot show all characters
                stream.reconfigure(errors="backslashreplace")
        with _clean_end():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except click.ClickException as error:
            error.message = printable(error.message)  # type: ignore[misc]
            raise
        except KeyboardInterrupt:
            say("Interrupted.", to_stderr=True)
            ctx.exit(INTERRUPTED)
        except BaseException as error:
            if ctx.meta.get("debug") or isinstance(error, SystemExit | GeneratorExit):
                raise
            if _expected(error):
                text = " ".join(str(error).split()) or type(error).__name__
                raise click.ClickException(printable(text)) from error
            traceback.print_exc()
            say("Error: this is a bug in dplan; please report it with the lines above.", to_stderr=True)
            ctx.exit(1)


def _debug(ctx: click.Context, option: click.Parameter, chosen: bool) -> None:
    ctx.meta["debug"] = chosen


def _expected(error: BaseException) -> bool:
    """Tell errors that bad input or a bad environment can cause from mistakes in the program."""
    if type(error).__module__.split(".")[0] in ("polars", "pyo3_runtime"):
        return True
    causes = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError)
    return isinstance(error, causes) and not isinstance(error, RecursionError | NotImplementedError)


@contextmanager
def _clean_end() -> Iterator[None]:
    """Let SIGTERM end the block as an exception does, so that temporary files are removed."""

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


def printable(text: str) -> str:
    r"""Return text with everything escaped that a terminal would obey instead of show.

    Examples
    --------
    >>> printable("a\x1b[2Jb\nc\u202ed–é")
    'a\\x1b[2Jb\\nc\\u202ed–é'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print one line, which may contain names and values from anywhere."""
    click.echo(printable(text), err=to_stderr)


def examples(*lines: str) -> str:
    """Return the end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


# Without news for so long at its beginning, a training is most likely still waiting for its kernels.
_COMPILING_SECONDS = 6


@contextmanager
def training_bar(detector: Detector) -> Iterator[Callable[[str], None]]:
    """Show how the training of a detector goes, on a terminal; give a function that names the current stage."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Figures(ProgressColumn):
        """The newest figures or, where they keep someone waiting, the likely reason."""

        def render(self, task: Task) -> Text:
            waiting = task.completed == 0 and (task.elapsed or 0) > _COMPILING_SECONDS
            return Text("compiling (first time here)" if waiting else task.fields["figures"])

    with _bar(Figures()) as bar:
        task = bar.add_task("", total=detector._expected_rounds(), figures="")
        names = {
            "reward": "reward {:.0f}",
            "epsilon": "ε {:.2f}",
            "loss": "loss {:.3g}",
            "held_out_error": "held out {:.1%}",
        }

        def advance(_: Detector, figures: Mapping[str, float]) -> None:
            shown = [
                text.format(figures[name])
                for name, text in names.items()
                if math.isfinite(figures.get(name, math.nan))
            ]
            done = int(bar.tasks[task].completed) + 1
            bar.update(task, advance=1, figures="  ".join([f"{detector.round_name} {done}", *shown]))

        def stage(name: str) -> None:
            bar.reset(task, total=detector._expected_rounds(), description=name.capitalize(), figures="")

        detector.set_params(callback=advance)
        try:
            yield stage
        finally:
            detector.set_params(callback=None)


@contextmanager
def progress_bar(*, of_bytes: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show on a terminal how much is done; give a function that takes what is being done, how much, and the total."""
    from rich.progress import DownloadColumn, MofNCompleteColumn, TransferSpeedColumn

    columns = [DownloadColumn(), TransferSpeedColumn()] if of_bytes else [MofNCompleteColumn()]
    with _bar(*columns) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)


@contextmanager
def _bar(*columns: Any) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    every = (TextColumn("{task.description}", markup=False), BarColumn(), *columns, TimeRemainingColumn())
    with Progress(*every, console=console, disable=not console.is_terminal, transient=True) as bar:
        yield bar


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Give a function that tells the seconds since the block began."""
    started = time.perf_counter()
    yield lambda: time.perf_counter() - started
