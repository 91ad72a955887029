"""The page in a cell of a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

__all__ = ["Frame", "framed"]

_NOBODY, _LOOPBACK = "frame-ancestors 'none'", "frame-ancestors http://localhost:* http://127.0.0.1:*"


def framed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a page that pages of this machine, such as JupyterLab, may show in a frame.

    Examples
    --------
    >>> framed({"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"})["Content-Security-Policy"]
    "default-src 'none'; frame-ancestors http://localhost:* http://127.0.0.1:*"
    """
    policy = headers["Content-Security-Policy"]
    return {**headers, "Content-Security-Policy": policy.replace(_NOBODY, _LOOPBACK)}


class Frame:
    """A page in a frame, as the output of a cell.

    What a notebook stores of it opens nothing: each time it is shown, it has a new link that works once.

    Parameters
    ----------
    link : callable
        Returns a link that works once.
    height : int
        Height in pixels.
    """

    def __init__(self, link: Callable[[], str], height: int) -> None:
        self._link, self._height = link, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{escape(self._link())}" title="Review" style="width: 100%; height: {self._height:d}px; '
            'border: 0"></iframe><div>This page is served to the machine of the kernel alone. If nothing is shown, or '
            "after opening the notebook again, run the cell again.</div>"
        )
