"""A picture of a review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dplan.explain.drawing import RAISES, axes
from dplan.plot.style import GREY, labelled
from dplan.review.log import Standing, read_log

__all__ = ["review"]


def review(log: Any, *, ax: Any = None) -> Any:
    """Draw how many anomalies a review has found against the number of rows looked at.

    Parameters
    ----------
    log : path, Review, or sequence of bool
        The log of verdicts, the review that writes it, or whether each row that was looked at is an anomaly.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture; the dotted line is what a perfect ranking would find.

    Examples
    --------
    >>> import dplan
    >>> dplan.plot.review([True, True, False, True]).get_lines()[0].get_ydata().tolist()
    [0, 1, 2, 2, 3]
    """
    found = [0, *np.cumsum(_finds(log), dtype=int).tolist()]
    picture = axes(ax, figsize=(6, 3))
    picture.step(range(len(found)), found, where="post", color=RAISES, label="found")
    most = found[-1]
    picture.plot(
        [0, most, len(found) - 1], [0, most, most], color=GREY, linestyle=":", label="perfect ranking"
    )
    picture.legend(frameon=False)
    return labelled(picture, "rows looked at", "anomalies found")


def _finds(log: Any) -> list[bool]:
    path = getattr(log, "log", log)
    if not isinstance(path, str | Path):
        return [bool(one) for one in log]
    given = Standing(read_log(path)).current.values()
    return [record["verdict"] == "anomaly" for record in given if record["verdict"] != "unsure"]
