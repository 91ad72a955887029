"""The story of a review as a self-contained page: what was found, by whom, and how the detector changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dplan._html import charts
from dplan._html.blocks import Block, Entry, Figure, Grid, Heading, Paragraph, Tiles, as_html
from dplan.review.labels import label_of
from dplan.review.progress import found_so_far, next_rows, without_feedback
from dplan.review.session import Session
from dplan.text import visible

__all__ = ["story"]

_LISTED = 200  # anomalies in the table of finds


def story(session: Session) -> str:
    """Return the page as HTML text."""
    name = session.maker.table.path.name
    return as_html(f"Review of {visible(name, 120)}", list(_blocks(session)))


def _blocks(session: Session) -> Iterator[Block]:
    judged, records, base = session.judged(), session.log.records, session.base
    current = session.round
    reviewed = list(judged.values())
    hits = [record["verdict"] == "anomaly" for record in reviewed]
    n_found = sum(hits)
    refits = [record for record in records if record["kind"] == "refit"]
    who = Counter(record["who"] or "unknown" for record in reviewed)
    yield Paragraph(
        f"{len(reviewed):,} of {len(current.scores):,} rows were looked at by {', '.join(map(visible, who)) or '–'}"
        f"{_period(records)}; the detector learned from the verdicts {_times(len(refits))}."
    )
    seconds = sum(record["seconds"] for record in reviewed)
    yield Tiles(
        [
            (f"{n_found:,}", "anomalies found"),
            (f"{sum(record['verdict'] == 'normal' for record in reviewed):,}", "false alarms"),
            (
                f"{100 * n_found / len(reviewed):.0f} %" if reviewed else "–",
                "of the rows looked at are anomalies",
            ),
            (f"{seconds / len(reviewed):.0f} s" if reviewed else "–", "per row"),
        ]
    )
    if len(hits) >= 2 and base is not None:
        yield from _curve(session, hits)
    yield from _stopping(hits)
    counts = Counter(map(label_of, reviewed))
    if counts:
        yield Heading("Labels")
        yield Grid(
            ["label", "rows"], [[Entry(visible(k, 60)), Entry(f"{n:,}")] for k, n in counts.most_common()]
        )
    finds = [(row, record) for row, record in judged.items() if record["verdict"] == "anomaly"]
    if finds:
        yield Heading("Anomalies")
        rows = [
            [
                Entry(visible(", ".join(record["row"]), 80)),
                Entry(visible(label_of(record), 60)),
                Entry(f"{record['score']:.3f}"),
                Entry(f"{record['rank']:,}"),
                Entry(visible(" | ".join(record["reasons"]), 300)),
            ]
            for _, record in finds[:_LISTED]
        ]
        caption = f"The first {_LISTED} of {len(finds):,}." if len(finds) > _LISTED else ""
        yield Grid(["row", "label", "score", "rank", "reasons"], rows, caption, text_columns=(0, 1, 4))
    if refits:
        yield Heading("What the detector learned")
        yield Grid(
            ["refit", "time", "seconds", "model"],
            [
                [
                    Entry(str(r["round"])),
                    Entry(_minute(r["time"])),
                    Entry(f"{r['seconds']:.1f}"),
                    Entry(r["model"]),
                ]
                for r in refits
            ],
            text_columns=(1, 3),
        )


def _curve(session: Session, hits: list[bool]) -> Iterator[Block]:
    assert session.base is not None
    verdicts = {row: record["verdict"] == "anomaly" for row, record in session.judged().items()}
    places = [float(n) for n in range(1, len(hits) + 1)]
    lines = {"alert": charts.Line(places, [float(n) for n in found_so_far(hits)])}
    names = {"alert": "found in this review"}
    baseline = without_feedback(session.base.rows.tolist(), verdicts, len(hits))
    if len(baseline) == len(hits):
        lines["background"] = charts.Line(places, baseline)
        names["background"] = "without feedback (estimated where rows were not looked at)"
    yield Heading("Progress")
    yield Figure(charts.key(names))
    yield Figure(
        charts.line_chart(
            lines, title="Anomalies found", x_label="rows looked at", y_label="anomalies found", whole=True
        )
    )


def _stopping(hits: list[bool]) -> Iterator[Block]:
    estimate = next_rows(hits)
    if estimate is not None:
        yield Paragraph(
            f"Of the next {estimate.rows} rows, about {estimate.expected:.0f} are anomalies "
            f"(90 % interval {estimate.low} to {estimate.high})."
        )


def _period(records: list[dict[str, object]]) -> str:
    times = [str(record["time"]) for record in records if record["kind"] == "verdict"]
    return f", from {_minute(times[0])} to {_minute(times[-1])} UTC" if times else ""


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"
