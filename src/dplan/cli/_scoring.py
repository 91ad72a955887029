"""The options of commands that score rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli._options import FILE, Decorator, grouped, on_error, repeated

if TYPE_CHECKING:
    from dplan.scoring import Scorer
    from dplan.tables import TableModel
    from dplan.tables.bad_cells import OnError


@dataclass(frozen=True)
class Scoring:
    """How the options of a command say that rows are scored."""

    budget: int | None
    threshold: float | None
    skip_labelled: bool
    on_error: OnError
    keep: tuple[str, ...] = ()
    top: int | None = None
    novelty: bool = False
    explore: int | None = None
    kinds: Path | None = None

    def __post_init__(self) -> None:
        if self.explore is not None and self.budget is None:
            raise click.UsageError("--explore reserves alerts of a budget; add --budget")
        if self.explore is not None and self.top is not None:
            raise click.UsageError(
                "--top writes the highest scores alone, so it cannot be combined with --explore"
            )
        if self.explore is not None and self.budget is not None and self.explore > self.budget:
            raise click.UsageError(f"--explore {self.explore:,} is more than the --budget of {self.budget:,}")
        if self.budget is not None and self.threshold is not None:
            raise click.UsageError(
                "--budget and --threshold cannot be combined, because both define the alerts"
            )
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise click.UsageError("--threshold must be a finite number")

    def scorer(self, model: TableModel) -> Scorer:
        """Return what scores rows so."""
        from dplan.scoring import AlertPolicy, Scorer
        from dplan.scoring.kinds import KindsOfRows

        return Scorer(
            model,
            keep=self.keep,
            on_error=self.on_error,
            skip_labelled=self.skip_labelled,
            alerts=AlertPolicy(self.threshold, self.budget, self.top, self.explore),
            novelty=self.novelty,
            kinds=KindsOfRows.load(self.kinds, model),
        )


kinds = click.option(
    "--kinds",
    type=FILE,
    metavar="FILE",
    help="Add the kind of each alert, by the rules of a file from dplan kinds; rows of muted kinds are no alerts.",
)
_ALERTS = (
    click.option("--budget", type=click.IntRange(1), metavar="N", help="Make the N highest scores alerts."),
    click.option("--threshold", type=float, metavar="SCORE", help="Make scores of at least SCORE alerts."),
    click.option("--skip-labelled", is_flag=True, help="Leave out rows that already have a verdict."),
    on_error,
)
alerts = grouped("scoring", Scoring, *_ALERTS)  # of a command that copies no columns


def scoring(verb: str, *more: Decorator) -> Decorator:
    """Return the options of a command that scores rows; the verb says what is done to their columns."""
    keep = repeated("--keep", "COLUMN", f"Column to {verb} in addition to the ids")
    return grouped("scoring", Scoring, keep, *more, *_ALERTS)
