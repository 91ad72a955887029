"""The report from beginning to end, as blocks."""

from collections.abc import Callable, Iterator

from dplan.benchmark import published
from dplan.benchmark.report.blocks import Block, Code, Entry, Figure, Grid, Heading, Paragraph, figures_text
from dplan.benchmark.report.drawing import Line, Panel, line_charts
from dplan.benchmark.report.notes import note_blocks
from dplan.benchmark.report.summary import summary
from dplan.benchmark.report.tables import comparison, methods_of, seeds_text, speed, title_of
from dplan.benchmark.results import Results, Spread, spread
from dplan.benchmark.suites import SUITES

__all__ = ["report_blocks"]

_MOST_TRACEBACKS = 5


def report_blocks(results: Results, notes: str = "") -> Iterator[Block]:
    """Give the whole report: a summary, the notes, a chapter per suite, and how it was made.

    Examples
    --------
    >>> [block.text for block in report_blocks(Results([]), "## Why?") if isinstance(block, Heading)]
    ['Why?', 'How this was made']
    """
    yield from summary(results)
    yield from note_blocks(notes)
    chapters: dict[str, Callable[[Results, str], Iterator[Block]]] = {
        "table2": lambda results, protocol: comparison(results, "table2", protocol, "table2", details=True),
        "known-classes": lambda results, protocol: _sweep(
            results, "known-classes", protocol, "known classes"
        ),
        "pollution": lambda results, protocol: _sweep(
            results, "pollution", protocol, "per cent of anomalies"
        ),
        "ablation": lambda results, protocol: comparison(
            results, "ablation", protocol, "table3", details=False
        ),
        "steps": _steps,
        "dimensions": lambda results, protocol: _sweep(results, "dimensions", protocol, "hidden units"),
        "speed": speed,
    }
    for suite, chapter in chapters.items():
        protocols = results.protocols(suite)
        if protocols:
            yield Heading(SUITES[suite].title)
        for protocol in protocols:
            if len(protocols) > 1:
                yield Heading(f"Protocol {protocol}", 3)
            yield from chapter(results, protocol)
    yield from _making(results)


def _sweep(results: Results, suite: str, protocol: str, x_label: str) -> Iterator[Block]:
    groups = results.groups(suite, protocol, lambda cell: cell["auc_pr"])
    datasets = results.names(suite, "dataset", published.data_sets(), protocol)
    methods = methods_of(results, suite, protocol)
    crosses: dict[str, dict[float, float]] = {}
    if suite != "dimensions":
        # Where the sweep begins, the paper's Table 2 has the figure of its drawing.
        start = 1.0 if suite == "known-classes" else 2.0
        for dataset in datasets:
            figure = published.figure("table2", "auc_pr", dataset, "DPLAN")
            if figure:
                crosses[title_of(dataset)] = {start: figure.mean}
    yield Paragraph(seeds_text(results, suite, protocol))
    yield _charts(groups, datasets, methods, x_label, "AUC-PR", crosses)


def _charts(
    groups: dict[tuple[str, float | None, str], Spread],
    datasets: list[str],
    methods: list[str],
    x_label: str,
    y_label: str,
    crosses: dict[str, dict[float, float]],
) -> Figure:
    xs = sorted({x for _, x, _ in groups if x is not None})
    panels, rows = [], []
    for dataset in datasets:
        lines = {}
        for method in methods:
            there = [x for x in xs if (dataset, x, method) in groups]
            if there:
                figures = [groups[dataset, x, method] for x in there]
                lines[method] = Line(
                    there, [figure.mean for figure in figures], [figure.deviation for figure in figures]
                )
                means = dict(zip(there, figures, strict=True))
                digits = 3 if max(abs(figure.mean) for figure in figures) < 10 else 0
                rows.append(
                    [
                        Entry(title_of(dataset)),
                        Entry(method),
                        *(Entry(figures_text(means[x].mean if x in means else None, digits)) for x in xs),
                    ]
                )
        panels.append(Panel(title_of(dataset), lines))
    head = [f"{y_label} by {x_label}", "method", *(f"{x:,g}" for x in xs)]
    caption = f"{y_label} by {x_label}; bands are ± one standard deviation."
    if crosses:
        caption += " The cross is the paper's figure of DPLAN in its Table 2."
    return Figure(line_charts(panels, x_label, y_label, published=crosses or None), caption, Grid(head, rows))


def _steps(results: Results, protocol: str) -> Iterator[Block]:
    datasets = results.names("steps", "dataset", published.data_sets(), protocol)
    yield Paragraph(
        f"{seeds_text(results, 'steps', protocol)} One training per run, judged on the way; the reward is that of an "
        "episode, averaged since the last checkpoint."
    )
    said = published.contents()["text"]["steps"]["auc_pr_after_100000_steps"]
    crosses: dict[str, dict[float, float]] = {}
    for dataset in datasets:
        figure = published.figure("table2", "auc_pr", dataset, "DPLAN")
        if figure:
            crosses[title_of(dataset)] = {20_000.0: figure.mean}
            if dataset in said:
                crosses[title_of(dataset)][100_000.0] = said[dataset]
    for measure, title in (("auc_pr", "AUC-PR"), ("reward", "episode reward")):
        values: dict[tuple[str, float | None, str], list[float]] = {}
        for cell in results.select("steps", protocol):
            for point in cell["curve"]:
                place = (cell["dataset"], float(point["steps"]), cell["method"])
                values.setdefault(place, []).append(point[measure])
        groups = {place: spread(group) for place, group in values.items()}
        last = max(x for _, x, _ in groups if x is not None)
        shown = {name: {x: y for x, y in points.items() if x <= last} for name, points in crosses.items()}
        yield _charts(
            groups,
            datasets,
            methods_of(results, "steps", protocol),
            "steps",
            title,
            shown if measure == "auc_pr" else {},
        )


def _making(results: Results) -> Iterator[Block]:
    yield Heading("How this was made")
    if results.runs:
        yield Code(
            "\n".join(dict.fromkeys(run["command"] or "(from Python)" for run in results.runs)), "Commands"
        )
    seeds = sorted({cell["seed"] for cell in results.cells})
    if seeds:
        yield Paragraph(
            f"{len(results.cells):,} cells, seeds {seeds[0]} to {seeds[-1]}. A run's seed is the detector's and, under "
            "the protocol resampled, that of the split, the labels and the contaminants, too."
        )
    rows = []
    for name, sentences in {name: s for run in results.runs for name, s in run["partial"].items()}.items():
        rows.append([Entry(name), Entry("; ".join(sentences) or "complete")])
    if rows:
        yield Grid(["data set", "against the paper's Table 1"], rows, "What data was partial.")
    noted: dict[tuple[str, str], int] = {}
    for cell in results.cells:
        for note in cell.get("notes", ()):
            noted[cell["scenario"], note] = noted.get((cell["scenario"], note), 0) + 1
    if noted:
        yield Grid(
            ["scenario", "note", "cells"],
            [[Entry(id), Entry(note), Entry(str(count))] for (id, note), count in sorted(noted.items())],
            "Where rows ran out.",
        )
    if results.runs:
        last = results.runs[-1]
        facts = {
            **last["versions"],
            **last["machine"],
            "workers": last["workers"],
            "last start": last["time"],
        }
        yield Grid(["what", "value"], [[Entry(name), Entry(str(value))] for name, value in facts.items()])
    for cell in results.failed[:_MOST_TRACEBACKS]:
        yield Code(
            cell["traceback"],
            f"Failed: {cell['suite']}, {cell['method']} on {cell['scenario']}, seed {cell['seed']}",
        )
    if len(results.failed) > _MOST_TRACEBACKS:
        yield Paragraph(
            f"{len(results.failed) - _MOST_TRACEBACKS:,} more cells failed; the journal has them all."
        )
    yield Paragraph(f"The paper: {published.contents()['source']}.")
