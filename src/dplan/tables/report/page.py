"""The report as one HTML page: no script, no font, no picture from elsewhere; every text from data is escaped."""

from __future__ import annotations

import re
from html import escape

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._version import __version__
from dplan.tables.formatting import number, typical, value
from dplan.tables.model import TableModel
from dplan.tables.report import svg
from dplan.tables.report.facts import Facts, Feature

__all__ = ["page"]

_SHOWN_FEATURES = 6
_NAME = re.compile("^`(.*?)`")  # with which a reason begins

# A page that may load nothing and run nothing, whatever stands in the data.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root { --ink: #1c2733; --soft: #5b6875; --line: #dfe4ea; --paper: #fff; --usual: #8fa3b8; --table: #2f6fb0;
  --highest: #b3243b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #9aa7b4; --line: #37424e; --paper: #161c23;
  --usual: #708296; --table: #6ea8e0; --highest: #ee6a7d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 24px 20px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 6px; }
h3 { font-size: 15px; margin: 14px 0 2px; overflow-wrap: anywhere; } p { margin: 4px 0 12px; color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.figures div { border: 1px solid var(--line); border-radius: 8px; padding: 10px 16px; min-width: 120px; }
.figures b { display: block; font-size: 21px; } .figures span { color: var(--soft); font-size: 13px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 8px 28px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font: 13px ui-monospace, monospace; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font-size: 11.5px; } svg text.small { fill: var(--soft); font-size: 10.5px; }
.axis, .grid { stroke: var(--line); } .mark { stroke: var(--highest); stroke-width: 1.5; stroke-dasharray: 5 3; }
.line { fill: none; stroke: var(--table); stroke-width: 2; } .dot { fill: var(--table); }
path.usual { fill: var(--usual); fill-opacity: .35; stroke: var(--usual); }
path.table { fill: var(--table); fill-opacity: .25; stroke: var(--table); }
path.highest { fill: var(--highest); fill-opacity: .25; stroke: var(--highest); }
rect.usual { fill: var(--usual); } rect.table { fill: var(--table); } rect.highest { fill: var(--highest); }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.6; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 5px 0 14px;
  vertical-align: -1px; }
.key i.usual { background: var(--usual); } .key i.table { background: var(--table); }
.key i.highest { background: var(--highest); }
.meter { background: var(--line); border-radius: 4px; height: 9px; width: 160px; }
.meter i { display: block; height: 9px; border-radius: 4px; background: var(--table); }
.meter i.strong { background: var(--highest); }
footer { margin-top: 48px; color: var(--soft); font-size: 13px; }
"""


def page(facts: Facts, model: TableModel, *, model_name: str, table_name: str) -> str:
    """Return the report as HTML text."""
    body = [
        _head(facts, model, model_name, table_name),
        _distribution(facts),
        _highest(facts, model),
        _main_features(facts.features[:_SHOWN_FEATURES], model),
        _map(facts),
        _learning(facts, model.detector.round_name),
        _members(model),
        _drift(facts),
        _judgement(facts),
    ]
    title = escape(f"{table_name}, scored by {model_name}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + f"\n<footer>Written by dplan {escape(__version__)}. This page loads nothing from elsewhere.</footer>"
        "\n</body>\n</html>\n"
    )


def _head(facts: Facts, model: TableModel, model_name: str, table_name: str) -> str:
    n_alerts = int((facts.scores >= facts.threshold).sum())
    share = n_alerts / len(facts.scores)
    figures = [
        (f"{len(facts.scores):,}", "rows scored"),
        (f"{n_alerts:,}", f"alerts ({share:.1%} of the rows)"),
        (number(facts.threshold), "score from which on a row is an alert"),
        (f"{model.summary.get('rows', 0):,}", "rows in training"),
    ]
    boxes = "".join(f"<div><b>{escape(big)}</b><span>{escape(small)}</span></div>" for big, small in figures)
    labels = ", ".join(f"{n:,} {label}" for label, n in model.summary.get("labels", {}).items())
    return (
        f"<h1>{escape(table_name)}</h1><p>Scored by {escape(model_name)}, a {escape(type(model.detector).__name__)} "
        f'trained on {escape(labels)} rows.</p><div class="figures">{boxes}</div>'
    )


def _distribution(facts: Facts) -> str:
    scores = facts.scores
    start = float(np.quantile(scores, 0.95))
    drawn = []
    for title, part in (("All rows", scores), ("The highest 5 %", scores[scores >= start])):
        low, high = float(part.min()), float(part.max())
        edges = np.linspace(low, high if high > low else low + 1, 51)
        shares = np.histogram(part, edges)[0] / len(scores)
        picture = svg.histogram(
            [("table", shares)], edges, title=f"Scores: {title}", mark=facts.threshold, mark_text="alert",
            x_title="anomaly score",
        )  # fmt: skip
        drawn.append(f"<div><h3>{title}</h3>{picture}</div>")
    return f'<h2>Scores</h2><p>Share of the rows at each score.</p><div class="pair">{"".join(drawn)}</div>'


def _highest(facts: Facts, model: TableModel) -> str:
    ids = [name for name in model.summary.get("ids", []) if name in facts.highest.columns]
    heading = "".join(f"<th>{escape(name)}</th>" for name in ids)
    rows = []
    percentiles = model.percentile(facts.highest_scores)
    for i, why in enumerate(facts.reasons):
        cells = "".join(f"<td>{escape(_cell(facts.highest, name, i))}</td>" for name in ids)
        lines = "<br>".join(_NAME.sub(r"<code>\1</code>", escape(reason)) for reason in why.split(" | "))
        rows.append(
            f'<tr><td class="n">{i + 1}</td>{cells}<td class="n">{facts.highest_scores[i]:.3f}</td>'
            f'<td class="n">{percentiles[i]:.1f}</td><td>{lines}</td></tr>'
        )
    return (
        "<h2>The most anomalous rows</h2><p>With the columns that push the score up most, what they hold, and what "
        'is typical among unlabelled training rows.</p><div class="scroll"><table><tr><th class="n">rank</th>'
        f'{heading}<th class="n">score</th><th class="n">percentile</th><th>because</th></tr>{"".join(rows)}'
        "</table></div>"
    )


def _cell(frame: pl.DataFrame, name: str, row: int) -> str:
    found = frame[name][row]
    return found if isinstance(found, str) else value(found)


def _main_features(features: list[Feature], model: TableModel) -> str:
    starts = np.flatnonzero(np.diff(model.preparation.output_groups(), prepend=-1))
    place = {column.name: start for column, start in zip(model.preparation.columns_, starts, strict=True)}
    drawn = []
    for feature in features:
        column = feature.column
        title = f"{column.name}: usual rows and alerts"
        series = [("usual", feature.usual), ("highest", feature.highest)]
        if column.kind == "number":
            edges = np.array([float(label) for label in feature.labels])
            picture = svg.histogram(series, edges, title=title, width=520, height=200)
        else:
            picture = svg.bars(series, feature.labels, title=title, width=520)
        usual = typical(column, model.usual[:, place[column.name]])
        drawn.append(f"<div><h3>{escape(column.name)}</h3><p>typical {escape(usual)}</p>{picture}</div>")
    key = '<i class="usual"></i>unlabelled training rows<i class="highest"></i>alerts of this table'
    return (
        "<h2>What is typical and what is not</h2><p>The columns with the largest effects on scores, the largest first."
        f'</p><p class="key">{key}</p><div class="pair">{"".join(drawn)}</div>'
    )


def _map(facts: Facts) -> str:
    low, high = np.quantile(facts.place_scores, [0.05, 0.995])
    shades = np.clip((facts.place_scores - low) / (high - low if high > low else 1.0), 0, 1)
    picture = svg.scatter(
        facts.places, shades, facts.known_places, title="Map of the rows", width=900, height=460
    )
    return (
        "<h2>Map</h2><p>Rows that the detector sees alike lie close together: a sample of the table and its alerts "
        "in the two main directions of the detector's embedding. The redder and larger a point, the higher its "
        f"score; rings are known anomalies from training.</p>{picture}"
    )


def _learning(facts: Facts, round_name: str) -> str:
    name = next((name for name in ("reward", "loss") if name in facts.history), None)
    if name is None:
        return ""
    points = [(i + 1.0, y) for i, y in enumerate(facts.history[name]) if np.isfinite(y)]
    if len(points) < 2:
        return ""
    what = f"{name} per {round_name}"
    picture = svg.curve(
        points, title="Learning curve", x_title=round_name, y_title=what, width=900, whole=True
    )
    return f"<h2>Learning curve</h2><p>{what.capitalize()} during training.</p>{picture}"


def _members(model: TableModel) -> str:
    kinds = model.detector._member_kinds()
    if not kinds:
        return ""
    total = sum(kind.weight for kind in kinds)
    rows = [
        f'<tr><td>{escape(kind.name)}</td><td><div class="meter"><i style="width:{100 * kind.weight / total:.0f}%"></i>'
        f'</div></td><td class="n">{kind.weight:.2f}</td></tr>'
        for kind in kinds
    ]
    return (
        "<h2>What the score is made of</h2><p>The weight of each kind of members. Agents have 1 together; kinds that "
        "rank known anomalies low, which they did not learn from, have less of it. Neighbours and forest look for what "
        'is rare in itself.</p><div class="scroll"><table><tr><th>members</th><th></th><th class="n">weight</th></tr>'
        f"{''.join(rows)}</table></div>"
    )


def _drift(facts: Facts) -> str:
    rows = []
    for feature in sorted(facts.features, key=lambda feature: -feature.drift)[:30]:
        strong = feature.drift >= 0.25
        verdict = "strong" if strong else "some" if feature.drift >= 0.1 else "little"
        width = round(100 * min(feature.drift, 1))
        rows.append(
            f'<tr><td>{escape(feature.column.name)}</td><td><div class="meter"><i class="{"strong" if strong else ""}" '
            f'style="width:{width}%"></i></div></td><td class="n">{feature.drift:.2f}</td><td>{verdict}</td></tr>'
        )
    return (
        "<h2>Drift against the training table</h2><p>0 = the column is spread as it was in training, 1 = nothing in "
        "common: the largest gap between cumulative shares; for texts, half the sum of the differences of shares. With "
        'strong drift in important columns, fit anew.</p><div class="scroll"><table><tr><th>column</th><th></th>'
        f'<th class="n">drift</th><th></th></tr>{"".join(rows)}</table></div>'
    )


def _judgement(facts: Facts) -> str:
    if facts.truth is None:
        return ""
    n_anomalies = int(facts.truth.sum())
    if n_anomalies in (0, len(facts.truth)):
        return (
            "<h2>Precision and recall</h2><p>The label column marks no row, or every row, as an anomaly.</p>"
        )
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

    precision, recall, _ = precision_recall_curve(facts.truth, facts.scores)
    alerts = facts.scores >= facts.threshold
    hits = int((alerts & facts.truth).sum())
    some = _thinned(len(precision))
    picture = svg.curve(
        [(float(recall[i]), float(precision[i])) for i in some], title="Precision and recall", x_title="recall",
        y_title="precision", y_range=(0.0, 1.0), width=900,
    )  # fmt: skip
    figures = [
        (f"{average_precision_score(facts.truth, facts.scores):.3f}", "AUC-PR"),
        (f"{roc_auc_score(facts.truth, facts.scores):.3f}", "AUC-ROC"),
        (f"{hits / max(int(alerts.sum()), 1):.0%}", "precision of the alerts"),
        (f"{hits / n_anomalies:.0%}", f"of {n_anomalies:,} anomalies are alerts"),
    ]
    boxes = "".join(f"<div><b>{big}</b><span>{escape(small)}</span></div>" for big, small in figures)
    return f'<h2>Precision and recall</h2><div class="figures">{boxes}</div>{picture}'


def _thinned(n: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, n - 1, min(n, 400)).astype(np.int64))
