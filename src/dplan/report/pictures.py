"""The pictures of the report in which every point is a row: score against novelty, and the map."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dplan._html import charts
from dplan._html.blocks import Block, Figure, Heading, Paragraph
from dplan.report.data import MIN_ROWS, ReportData

__all__ = ["map_picture", "novelty_picture"]

_SHADES = (50, 80, 95, 99)  # percentiles at which the colour of the map changes, below that of alerts
_NOVEL = 99  # percent


def novelty_picture(data: ReportData) -> Iterator[Block]:
    """Yield a picture of score and novelty, if the detector has explorers."""
    found = data.novelty
    if found is None:
        return
    n_rows, n_alerts = len(found.alert), int(found.alert.sum())
    n_missed = int((~found.alert & (found.novelty >= _NOVEL)).sum())
    yield Heading("Score and novelty")
    yield Paragraph(
        "The score tells how much a row is like the known anomalies, or unlike the other rows; novelty is the second "
        "alone: the share of unlabelled training rows that are less unusual, whatever the labels say. Rows at the top "
        "that are not alerts are strange in a way that nobody has labelled; dplan score --explore reserves alerts for "
        "them."
    )
    groups = {"background": ~found.alert, **({"alert": found.alert} if n_alerts else {})}
    places = np.column_stack([found.score, found.novelty])
    yield Figure(
        charts.key({"background": "a sample of the rows", **({"alert": "alerts"} if n_alerts else {})})
    )
    title = (
        f"Score and novelty of {n_rows:,} rows, {n_alerts:,} of them alerts; {n_missed:,} others have a novelty of at "
        f"least {_NOVEL} %"
    )
    chart = charts.points(
        {style: places[which] for style, which in groups.items()},
        title=title,
        x_label="anomaly score",
        y_label="novelty, %",
    )
    yield Figure(chart, title + ".")


def map_picture(data: ReportData) -> Iterator[Block]:
    """Yield the map."""
    yield Heading("Map")
    if data.map is None:
        yield Paragraph(f"A map needs at least {MIN_ROWS} rows.")
        return
    found = data.map
    # Absolute: a colour means the same percentile in every report.
    levels = np.searchsorted(_SHADES, found.percentile, "right")
    shades = np.where(found.alert, 1.0, levels / (len(_SHADES) + 1))
    names = [f"below percentile {_SHADES[0]}", *(f"from percentile {share}" for share in _SHADES)]
    legend = {f"m{level}": name for level, name in enumerate(names)}
    n_alerts = int(found.alert.sum())
    if n_alerts:
        legend["m5"] = "alerts"
    yield Paragraph(
        "A sample of the rows, and the alerts: rows that the detector finds similar are close together. The colours "
        "are percentiles: the share of unlabelled training rows with a lower score. Rings are known anomalies from "
        "training."
    )
    yield Figure(charts.key(legend))
    title = f"Map of {len(found.alert):,} rows, {n_alerts:,} of them alerts, and {len(found.known):,} known anomalies"
    yield Figure(charts.scatter(found.places, shades, found.known, title=title), title + ".")
