"""Bars of effects, drawn with matplotlib, which is loaded on use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from dplan.exceptions import needs
from dplan.text import shortened, visible

__all__ = ["RAISES", "axes", "bars", "plain"]

RAISES, LOWERS = "#c2410c", "#2563a8"  # readable on white and on dark grey, also for colour-blind people
_LABEL = 48  # characters


def axes(ax: Any = None, **figure: Any) -> Any:
    """Return the axes to draw on: those given, or those of a new figure.

    Examples
    --------
    >>> type(axes(figsize=(4, 2))).__name__
    'Axes'
    """
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise needs("drawing", "matplotlib") from None
    return plt.subplots(layout="constrained", **figure)[1]


def plain(text: str, most: int = _LABEL) -> str:
    r"""Return text for a picture: short, and a dollar sign begins no formula.

    Examples
    --------
    >>> plain("price in $")
    'price in \\$'
    """
    return shortened(" ".join(visible(text).split()), most).replace("$", r"\$")


def bars(labels: Sequence[str], values: NDArray[Any], title: str, ax: Any = None) -> Any:
    """Draw horizontal bars, the first at the top, in one colour above and another below zero."""
    found = axes(ax, figsize=(6, 0.6 + 0.34 * max(2, len(labels))))
    places = range(len(labels))
    colours = [RAISES if value > 0 else LOWERS for value in values]
    found.barh(places, values, color=colours, height=0.7)
    found.set_yticks(places, [plain(label) for label in labels])
    found.invert_yaxis()
    found.axvline(0, color="grey", linewidth=0.8)
    found.set_xlabel("effect on the score")
    found.set_title(title, fontsize="medium", loc="left")
    found.spines[["top", "right", "left"]].set_visible(False)
    return found
