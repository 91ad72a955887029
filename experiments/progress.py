"""Show progress live in a terminal, or as plain lines without one."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from experiments.cells import Cell

__all__ = ["LiveProgress"]

_SECONDS_BETWEEN_LINES = 30.0


class LiveProgress:
    """A listener of the runner: cells done, running and failed, time left, and the best methods so far."""

    def __init__(self, console: Console, workers: int) -> None:
        self._console, self._workers = console, workers
        self._bar = Progress(
            TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._live = Live(console=console, refresh_per_second=4)
        self._shows_live = console.is_terminal
        self._areas: dict[str, dict[str, list[float]]] = {}
        self._total = self._done = self._failed = 0
        self._latest: Cell | None = None

    def __enter__(self) -> Self:
        if self._shows_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shows_live:
            self._live.stop()

    def start(self, cells: Sequence[Cell], skipped: int) -> None:
        """Start counting."""
        self._total, self._started = len(cells), time.monotonic()
        self._last_line = self._started
        self._task = self._bar.add_task("cells", total=len(cells) + skipped, completed=skipped)
        if skipped:
            self._console.print(f"{skipped:,} cells already finished, {len(cells):,} remaining")
        self._show()

    def finish(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Count a cell."""
        self._latest = cell
        if outcome["status"] == "failed":
            self._failed += 1
            message = f"failed: {cell.suite}, {cell.method} on {cell.scenario}, seed {cell.seed}: {outcome['error']}"
            self._console.print(Text(message, style="red"))
        else:
            self._done += 1
            methods = self._areas.setdefault(cell.suite, {})
            reviewed = "found" in outcome  # then the share of the anomalies that were found
            area = len(outcome["finds"]) / max(outcome["anomalies"], 1) if reviewed else outcome["auc_pr"]
            methods.setdefault(cell.method, []).append(area)
        self._bar.advance(self._task)
        self._show()

    def _show(self) -> None:
        if self._shows_live:
            self._live.update(Group(self._bar, Text(self._line())))
            return
        ended = self._total and self._done + self._failed == self._total
        if ended or time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._console.print(Text(self._line()), soft_wrap=True)

    def _line(self) -> str:
        over = self._done + self._failed
        running = min(self._workers, self._total - over)
        parts = [f"{self._done:,} done, {running} running, {self._failed:,} failed, {self._time_left(over)}"]
        if self._latest is not None and self._areas.get(self._latest.suite):
            means = {name: sum(areas) / len(areas) for name, areas in self._areas[self._latest.suite].items()}
            best = sorted(means, key=means.__getitem__, reverse=True)[:3]
            listed = ", ".join(f"{name} {means[name]:.3f}" for name in best)
            metric = "share of anomalies found" if self._latest.suite == "discovery" else "AUC-PR"
            parts.append(f"{self._latest.suite}, best {metric} so far: {listed}")
        return "; ".join(parts)

    def _time_left(self, over: int) -> str:
        if over == 0 or over == self._total:
            return "estimating the time left" if over == 0 and self._total else "finished"
        seconds = (time.monotonic() - self._started) / over * (self._total - over)
        return f"about {timedelta(seconds=round(seconds))} left"
