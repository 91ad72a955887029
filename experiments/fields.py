"""Compare methods over tables, for one number of labels or over several: means, ranks, tests, and charts."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._html.blocks import Entry, Figure, Grid
from experiments.charts import Line, number_text, panels, ranks
from experiments.results import Cell, Results
from experiments.statistics import average_ranks, wilcoxon_p_value

__all__ = ["OURS", "Field", "Metrics", "curves", "diagrams", "headline", "method_grid"]

OURS = "DPLANEnsemble"
_MOST_LINES = 9  # as many as there are colours

Matrix = NDArray[np.float64]  # one row per table, one column per method
Metrics = Mapping[str, str]  # field of a cell → title


class Field(NamedTuple):
    """Results on the same tables, means over the seeds: our methods first, then published results."""

    tables: list[str]
    ours: list[str]
    published: list[str]
    areas: dict[str, Matrix]  # by metric

    @classmethod
    def of(
        cls,
        results: Results,
        suite: str,
        x: float,
        metrics: Metrics,
        published: pl.DataFrame | None = None,
        order: Mapping[str, int] | None = None,
    ) -> "Field":
        """Collect the cells of a suite with one x, and published means with columns table, method and the metrics."""
        cells: list[Cell] = [cell for cell in results.select(suite) if cell["x"] == x]
        there = {cell["dataset"] for cell in cells}
        tables = sorted(there, key=lambda name: ((order or {}).get(name, 0), name))
        own = {cell["method"] for cell in cells}
        ours = sorted(own, key=lambda name: (name != OURS, name))
        other = pl.DataFrame(schema=["table", "method", *metrics]) if published is None else published
        theirs = sorted(set(other["method"]))
        areas = {}
        for metric in metrics:
            printed = {
                (table, name): area for table, name, area in other.select("table", "method", metric).rows()
            }
            published_areas = [[printed.get((table, name), np.nan) for name in theirs] for table in tables]
            mine = results.matrix(suite, "resampled", metric, tables, ours, x)
            areas[metric] = np.hstack([mine, np.array(published_areas, np.float64).reshape(len(tables), -1)])
        return cls(tables, ours, theirs, areas)

    @property
    def names(self) -> list[str]:
        """All methods; published results are marked."""
        return [*self.ours, *(f"{name} (published)" for name in self.published)]

    @property
    def reference(self) -> int:
        """The column that others are compared with."""
        return self.ours.index(OURS) if OURS in self.ours else 0

    def means(self, metric: str) -> list[float]:
        """Return each method's mean over the tables."""
        return [float(np.nanmean(column)) for column in self.areas[metric].T]

    def ranks(self, metric: str) -> list[float]:
        """Return each method's mean rank, 1 being best; a missing result ranks last.

        Where there are published results, ranks are among those and the reference. Our other methods are ranked in its
        place, one at a time, because some of them repeat a published one.
        """
        table = np.nan_to_num(self.areas[metric], nan=-1.0)
        published = list(range(len(self.ours), table.shape[1]))
        if not published:
            return [float(rank) for rank in average_ranks(table)]
        own = [float(average_ranks(table[:, [i, *published]])[0]) for i in range(len(self.ours))]
        return own + [float(rank) for rank in average_ranks(table[:, [self.reference, *published]])[1:]]

    @property
    def rivals(self) -> list[int]:
        """The columns that the reference is ranked with."""
        return [
            i
            for i in range(len(self.names))
            if i != self.reference and (i >= len(self.ours) or not self.published)
        ]


def headline(field: Field, metrics: Metrics) -> str:
    """Compare the reference with the best others, in a sentence."""
    texts = []
    for metric, title in metrics.items():
        means, ranks = field.means(metric), field.ranks(metric)
        text = f"{title} {means[field.reference]:.3f}, mean rank {ranks[field.reference]:.2f}"
        if field.rivals:
            best, first = max(field.rivals, key=means.__getitem__), min(field.rivals, key=ranks.__getitem__)
            text += (
                f" (highest mean of the others: {field.names[best]} with {means[best]:.3f}; "
                f"best rank: {field.names[first]} with {ranks[first]:.2f})"
            )
        texts.append(text)
    return f"{field.names[field.reference]}: {'; '.join(texts)}."


def method_grid(field: Field, metrics: Metrics) -> Grid:
    """Tabulate all methods: means, ranks, wins and tests."""
    columns: list[list[Entry]] = []
    head = ["method"]
    for metric, title in metrics.items():
        table, means, ranks = field.areas[metric], field.means(metric), field.ranks(metric)
        reference = table[:, field.reference]
        # Equal when shown with three digits; equal results all count.
        best = (np.nanmax(table, axis=1, keepdims=True) - table < 5e-4).sum(axis=0)
        head += [title, "mean rank", "best on", "Wilcoxon p"]
        columns += [
            [Entry(number_text(mean), strong=mean == max(means)) for mean in means],
            [Entry(number_text(rank, 2), strong=rank == min(ranks)) for rank in ranks],
            [Entry(str(count)) for count in best.tolist()],
            [
                Entry("–" if i == field.reference else number_text(wilcoxon_p_value(reference, column), 4))
                for i, column in enumerate(table.T)
            ],
        ]
    first = next(iter(metrics))
    names = field.names
    order = np.argsort([-mean for mean in field.means(first)], kind="stable")
    rows = [[Entry(names[i], strong=i == field.reference), *(column[i] for column in columns)] for i in order]
    among = "the published methods and" if field.published else "all methods, including"
    caption = (
        f"Means over {len(field.tables)} tables, each a mean over the seeds. Mean rank: among {among} "
        f"{names[field.reference]}. Best on: tables with the highest value of this list. Wilcoxon p: signed-rank test "
        f"over the tables against {names[field.reference]}."
    )
    if field.published:
        caption += f" Our other methods are ranked in the place of {names[field.reference]}, one at a time."
    lacking = {names[i]: int(np.isnan(column).sum()) for i, column in enumerate(field.areas[first].T)}
    missing = [f"{name} lacks {count}" for name, count in lacking.items() if count]
    if missing:
        caption += f" Missing tables, which rank last: {'; '.join(missing)}."
    return Grid(head, rows, caption)


def diagrams(field: Field, metrics: Metrics) -> Iterator[Figure]:
    """Draw the ranks of the reference and its rivals."""
    chosen = [field.reference, *field.rivals]
    names = [field.names[i] for i in chosen]
    for metric, title in metrics.items():
        yield from ranks(np.nan_to_num(field.areas[metric][:, chosen], nan=-1.0), names, title, "tables")


def curves(
    fields: Mapping[float, Field], metrics: Metrics, x_label: str, omitted: Mapping[str, str] | None = None
) -> Iterator[Figure]:
    """Draw the means by x: the reference, and the methods with the highest values of the first metric.

    `omitted` are our methods that repeat a published one.
    """
    if len(fields) < 2:
        return
    charts: dict[str, dict[str, Line]] = {}
    chosen: list[str] = []
    for metric, title in metrics.items():
        means: dict[str, dict[float, float]] = {}
        for x, field in fields.items():
            for name, mean in zip(field.names, field.means(metric), strict=True):
                if not (field.published and name in (omitted or {})):
                    means.setdefault(name, {})[x] = mean
        if not chosen:
            whole = [name for name, values in means.items() if len(values) == len(fields)]
            best = sorted(whole, key=lambda name: -float(np.mean(list(means[name].values()))))
            chosen = [*(name for name in best if name == OURS), *(name for name in best if name != OURS)]
            chosen = chosen[:_MOST_LINES]
        charts[title] = {name: Line([*means[name]], [*means[name].values()]) for name in chosen}
    if not chosen:
        return
    rows = [
        [Entry(title), Entry(name), *(Entry(number_text(value)) for value in line.mean)]
        for title, lines in charts.items()
        for name, line in lines.items()
    ]
    head = ["metric", "method", *(f"{x:g} {x_label}" for x in fields)]
    yield Figure(
        panels(charts, x_label, "mean over the tables"),
        f"Means over the tables by {x_label}: the methods with the highest {next(iter(metrics.values()))}.",
        Grid(head, rows, text_columns=(0, 1)),
    )
