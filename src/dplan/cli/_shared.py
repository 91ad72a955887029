"""What the commands share: errors in one line, progress bars that are silent when piped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dplan.detectors._base import Detector

MODEL = click.Path(exists=True, dir_okay=False, path_type=Path)


class OneLineErrors(click.Command):
    """A command whose errors are one line and exit code 1; with ``--debug`` the traceback is shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        debug = ctx.params.pop("debug")
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if debug:
                raise
            text = " ".join(str(error).split()) or type(error).__name__
            if not isinstance(error, ValueError | TypeError | OSError | ImportError):
                text = f"{type(error).__name__}: {text} (--debug shows where)"
            raise click.ClickException(text) from error


def examples(*lines: str) -> str:
    """Return the end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print a line."""
    click.echo(text, err=to_stderr)


# Without news for so long at its beginning, a training is most likely still waiting for its kernels.
_COMPILING_SECONDS = 6


@contextmanager
def training_bar(detector: Detector) -> Iterator[Callable[[str], None]]:
    """Show how the training of a detector goes, on a terminal; give a function that names the current stage."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Figures(ProgressColumn):
        """The newest figures or, where they keep someone waiting, the likely reason."""

        def render(self, task: Task) -> Text:
            waiting = task.completed == 0 and (task.elapsed or 0) > _COMPILING_SECONDS
            return Text("compiling (first time here)" if waiting else task.fields["figures"])

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), Figures(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
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
def chunk_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show how many chunks are done, on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Give a function that tells the seconds since the block began."""
    started = time.perf_counter()
    yield lambda: time.perf_counter() - started
