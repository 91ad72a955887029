"""The chapter about ADGym's splits: our results next to the published ones, on the same rows."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._html.blocks import Block, Entry, Figure, Grid, Heading, Items, Paragraph
from dplan._html.charts import Line, critical_difference, panels
from dplan.benchmark.report.tables import METRICS, number_text
from dplan.benchmark.results import Results
from dplan.benchmark.statistics import average_ranks, rank_methods, wilcoxon_p_value

__all__ = ["adgym_chapter"]

_SUITE, _PROTOCOL = "adgym", "resampled"
_OURS = "DPLANEnsemble"
_NAMESAKES = {
    "CatBoost": "CatB",
    "GaussianNB": "NB",
}  # ours → published: the same method with the same settings
_MOST_LINES = 9

Matrix = NDArray[np.float64]  # one row per table, one column per method


class Field(NamedTuple):
    """All results with one number of labels, means over the seeds: ours first, then the published ones."""

    tables: list[str]
    ours: list[str]
    published: list[str]
    areas: dict[str, Matrix]  # by metric

    @property
    def names(self) -> list[str]:
        """All methods; published results are marked."""
        return [*self.ours, *(f"{name} (published)" for name in self.published)]

    @property
    def reference(self) -> int:
        """The column that others are compared with."""
        return self.ours.index(_OURS) if _OURS in self.ours else 0

    def ranks(self, metric: str) -> list[float]:
        """Return each method's mean rank among the published methods and the reference, 1 being best.

        Our other methods do not count, because some of them repeat a published one. A missing result ranks last.
        """
        table = np.nan_to_num(self.areas[metric], nan=-1.0)
        published = list(range(len(self.ours), table.shape[1]))
        if not published:
            return list(average_ranks(table))
        ranks = [float(average_ranks(table[:, [own, *published]])[0]) for own in range(len(self.ours))]
        return ranks + list(average_ranks(table[:, [self.reference, *published]])[1:])


def adgym_chapter(results: Results, published: pl.DataFrame) -> Iterator[Block]:
    """Return the chapter.

    Parameters
    ----------
    results : Results
        Our cells.
    published : polars.DataFrame
        From `dplan.datasets.adgym.published`; without rows, only our results are shown.
    """
    cells = results.select(_SUITE)
    seeds = sorted({cell["seed"] for cell in cells})
    comparable = published.filter(pl.col("seed").is_in(seeds))
    if set(seeds) - set(comparable["seed"]):  # other seeds are other rows
        comparable = comparable.clear()
    labels = sorted({cell["x"] for cell in cells})
    fields = {count: _field(results, comparable, count) for count in labels}
    tables = sorted({cell["dataset"] for cell in cells})
    yield Paragraph(
        f"{len(tables)} tables of ADBench, split and labelled exactly as ADGym (Jiang et al., NeurIPS 2023) did, seeds "
        f"{', '.join(map(str, seeds))}: at most 3,000 rows, 70 % of them for training, nothing scaled beforehand. "
        + (
            f"{len(set(comparable['method']))} methods as published by ADGym for these seeds, and ours on the same rows."
            if comparable.height
            else "The published results for these seeds are not available, so only ours are shown."
        )
    )
    checks = list(_self_checks(results, comparable))
    if fields:
        yield Items([*(_headline(count, field) for count, field in fields.items()), *checks])
    yield from _by_labels(fields)
    for count, field in fields.items():
        yield Heading(f"{count:g} labels", 3)
        yield _methods(field)
        yield from _diagrams(field)
        yield _tables(field)


def _headline(count: float, field: Field) -> str:
    """Compare the reference with the best other method."""
    name = field.names[field.reference]
    texts = []
    for metric, title in METRICS.items():
        table, ranks = field.areas[metric], field.ranks(metric)
        means = [float(np.nanmean(column)) for column in table.T]
        others = [
            i
            for i in range(len(means))
            if i != field.reference and (i >= len(field.ours) or not field.published)
        ]
        text = f"{title} {means[field.reference]:.3f}, mean rank {ranks[field.reference]:.2f}"
        if others:
            best, first = max(others, key=means.__getitem__), min(others, key=ranks.__getitem__)
            text += (
                f" (highest mean of the others: {field.names[best]} with {means[best]:.3f}; "
                f"best rank: {field.names[first]} with {ranks[first]:.2f})"
            )
        texts.append(text)
    return f"{count:g} labels, {name}: {'; '.join(texts)}."


def _field(results: Results, published: pl.DataFrame, count: float) -> Field:
    cells = [cell for cell in results.select(_SUITE) if cell["x"] == count]
    tables = sorted({cell["dataset"] for cell in cells}, key=_table_order)
    ours = list(dict.fromkeys([_OURS, *sorted({cell["method"] for cell in cells})]))
    ours = [name for name in ours if any(cell["method"] == name for cell in cells)]
    there = published.filter(labels=int(count)).filter(pl.col("table").is_in(tables))
    means = there.group_by("table", "method").agg(pl.col("auc_pr", "auc_roc").mean())
    theirs = sorted(set(there["method"]))
    areas = {}
    for metric in METRICS:
        groups = results.groups(_SUITE, _PROTOCOL, metric)
        own = {(table, name): spread.mean for (table, x, name), spread in groups.items() if x == count}
        other = {(table, name): area for table, name, area in means.select("table", "method", metric).rows()}
        areas[metric] = np.array(
            [
                [
                    found.get((table, name), np.nan)
                    for found, names in ((own, ours), (other, theirs))
                    for name in names
                ]
                for table in tables
            ]
        )
    return Field(tables, ours, theirs, areas)


def _table_order(name: str) -> tuple[str, str]:
    return name.partition("_")[0].zfill(9), name


def _self_checks(results: Results, published: pl.DataFrame) -> Iterator[str]:
    """Compare cells with published results of the same method."""
    theirs = {tuple(key): areas for *key, areas in _keyed(published)}
    for ours, name in _NAMESAKES.items():
        differences = [
            max(abs(cell[metric] - area) for metric, area in zip(METRICS, theirs[key], strict=True))
            for cell in results.select(_SUITE)
            if cell["method"] == ours
            and (key := (cell["dataset"], cell["seed"], int(cell["x"]), name)) in theirs
        ]
        if differences:
            same = sum(difference <= 1e-6 for difference in differences)
            yield (
                f"Self-check: {ours} repeats the published {name} to six decimals, in both metrics, in {same} of "
                f"{len(differences)} cells; the largest difference is {max(differences):.2g}."
            )


def _keyed(published: pl.DataFrame) -> Iterator[tuple[str, int, int, str, tuple[float, float]]]:
    for row in published.select("table", "seed", "labels", "method", *METRICS).rows():
        yield (*row[:4], row[4:])


def _best_counts(table: Matrix) -> list[int]:
    """Count the tables on which each method is best; equal results all count."""
    best = np.nanmax(table, axis=1, keepdims=True)
    return [int(n) for n in (np.abs(table - best) < 5e-4).sum(axis=0)]


def _methods(field: Field) -> Grid:
    columns: list[list[Entry]] = []
    head = ["method"]
    for metric, title in METRICS.items():
        table = field.areas[metric]
        reference = table[:, field.reference]
        means = [float(np.nanmean(column)) for column in table.T]
        p_values = [
            "–" if i == field.reference else number_text(wilcoxon_p_value(reference, column), 4)
            for i, column in enumerate(table.T)
        ]
        ranks = field.ranks(metric)
        head += [title, "mean rank", "best on", "Wilcoxon p"]
        columns += [
            [Entry(number_text(mean), strong=mean == max(means)) for mean in means],
            [Entry(number_text(rank, 2), strong=rank == min(ranks)) for rank in ranks],
            [Entry(str(count)) for count in _best_counts(table)],
            [Entry(text) for text in p_values],
        ]
    order = np.argsort([-float(np.nanmean(column)) for column in field.areas["auc_pr"].T], kind="stable")
    names = field.names
    rows = [[Entry(names[i], strong=i < len(field.ours)), *(column[i] for column in columns)] for i in order]
    caption = (
        f"Means over {len(field.tables)} tables, each a mean over the seeds. Mean rank: among the published methods and "
        f"{names[field.reference]}; our other methods are ranked in its place. Best on: tables with the highest value of "
        f"all in this list. Wilcoxon p: signed-rank test over the tables against {names[field.reference]}."
    )
    missing = [
        f"{names[i]} lacks {int(np.isnan(column).sum())}"
        for i, column in enumerate(field.areas["auc_pr"].T)
        if np.isnan(column).any()
    ]
    if missing:
        caption += f" Missing tables, which rank last: {'; '.join(missing)}."
    return Grid(head, rows, caption)


def _diagrams(field: Field) -> Iterator[Block]:
    """Draw the ranks of the reference among the published methods."""
    chosen = [field.reference, *range(len(field.ours), len(field.names))]
    if len(chosen) < 3:
        chosen = list(range(len(field.names)))
    figures = []
    for metric, title in METRICS.items():
        table = np.nan_to_num(field.areas[metric][:, chosen], nan=-1.0)
        ranking = rank_methods(table)
        if ranking is None:
            continue
        names = [field.names[i] for i in chosen]
        rows = [
            [Entry(names[i]), Entry(number_text(float(ranking.ranks[i]), 2))]
            for i in np.argsort(ranking.ranks)
        ]
        chart = critical_difference(
            [name.removesuffix(" (published)") for name in names],
            ranking.ranks.tolist(),
            ranking.critical_difference,
        )
        figures.append(
            Figure(
                chart,
                f"Average ranks by {title} over {ranking.n} tables; 1 is best. Friedman test: p = {ranking.p_value:.2g}. "
                "Bars join methods that the Nemenyi test does not separate at the 5 % level.",
                Grid(["method", f"average rank by {title}"], rows),
            )
        )
    yield from figures


def _tables(field: Field) -> Grid:
    """Show each table: our methods, and the best published one."""
    table = field.areas["auc_pr"]
    rows = []
    for name, values in zip(field.tables, table, strict=True):
        own = values[: len(field.ours)]
        entries = [Entry(number_text(float(value)), strong=value == np.nanmax(values)) for value in own]
        theirs = values[len(field.ours) :]
        if field.published:
            best = int(np.nanargmax(theirs))
            catboost = field.published.index("CatB") if "CatB" in field.published else best
            entries += [
                Entry(number_text(float(theirs[catboost]))),
                Entry(
                    number_text(float(theirs[best])), field.published[best], theirs[best] == np.nanmax(values)
                ),
            ]
        rows.append([Entry(name), *entries])
    head = ["AUC-PR", *field.ours, *(("CatB (published)", "best published") if field.published else ())]
    return Grid(head, rows, "Means over the seeds.")


def _by_labels(fields: dict[float, Field]) -> Iterator[Block]:
    """Draw the means by the number of labels: ours, and the best published methods."""
    if len(fields) < 2:
        return
    charts: dict[str, dict[str, Line]] = {}
    chosen: list[str] = []
    for metric, title in METRICS.items():
        means: dict[str, dict[float, float]] = {}
        for count, field in fields.items():
            for name, column in zip(field.names, field.areas[metric].T, strict=True):
                if not (field.published and name in _NAMESAKES):  # the same line twice
                    means.setdefault(name, {})[count] = float(np.nanmean(column))
        chosen = chosen or _most_interesting(means, next(iter(fields.values())))
        charts[title] = {name: Line([*means[name]], [*means[name].values()]) for name in chosen}
    rows = [
        [Entry(title), Entry(name), *(Entry(number_text(value)) for value in line.mean)]
        for title, lines in charts.items()
        for name, line in lines.items()
    ]
    head = ["metric", "method", *(f"{count:g} labels" for count in fields)]
    yield Figure(
        panels(charts, "labels", "mean over the tables"),
        f"{chosen[0]}, and the methods with the highest AUC-PR of all others.",
        Grid(head, rows, text_columns=(0, 1)),
    )


def _most_interesting(means: dict[str, dict[float, float]], field: Field) -> list[str]:
    """Return the reference, then the best methods that have results for every number of labels."""
    whole = [name for name, values in means.items() if len(values) == max(map(len, means.values()))]
    best = sorted(whole, key=lambda name: -float(np.mean(list(means[name].values()))))
    first = field.names[field.reference]
    return list(dict.fromkeys([*([first] if first in whole else []), *best]))[:_MOST_LINES]
