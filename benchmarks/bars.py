"""What the benchmarks share: timing, and a table of figures against the bars that they must hold."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Bar:
    """One measured figure and the bar that it must hold; `at_most` or `at_least`, or neither to only report it."""

    name: str
    figure: float
    detail: str
    at_most: float | None = None
    at_least: float | None = None
    unit: str = "×"

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side of its bar."""
        too_high = self.at_most is not None and self.figure > self.at_most
        too_low = self.at_least is not None and self.figure < self.at_least
        return not (too_high or too_low)


Clock = Callable[[], float]


def seconds(job: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return how long a job takes; `time.process_time` counts work only, and not waiting for a busy machine."""
    start = clock()
    job()
    return clock() - start


def interleaved(
    jobs: Sequence[Callable[[], object]], rounds: int, clock: Clock = time.perf_counter
) -> list[float]:
    """Return each job's best time over rounds in which all jobs take turns: other load then hits all of them."""
    best = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for i, job in enumerate(jobs):
            best[i] = min(best[i], seconds(job, clock))
    return best


def show(title: str, bars: Sequence[Bar]) -> bool:
    """Print the bars as a table and return whether all hold."""
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("")
    table.add_column("measured")
    for bar in bars:
        limit = f"≤ {bar.at_most:g}" if bar.at_most is not None else ""
        limit = f"≥ {bar.at_least:g}" if bar.at_least is not None else limit
        verdict = "" if not limit else "[green]ok[/]" if bar.holds else "[red]MISSED[/]"
        table.add_row(bar.name, f"{bar.figure:.2f}{bar.unit}", limit, verdict, bar.detail)
    Console(width=150).print(table)
    return all(bar.holds for bar in bars)
