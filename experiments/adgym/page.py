"""The chapter about ADGym's splits: our results next to the published ones, on the same rows."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import polars as pl

from dplan._html.blocks import Block, Entry, Grid, Heading, Items, Paragraph
from experiments.charts import METRICS, number_text
from experiments.fields import Field, curves, diagrams, headline, method_grid
from experiments.methods import RESCALED
from experiments.results import Results

__all__ = ["adgym_chapter"]

_SUITE = "adgym"
# Ours → published: the same method with the same settings.
_NAMESAKES = {"CatBoost": "CatB", "GaussianNB": "NB"}


def adgym_chapter(results: Results, published: pl.DataFrame) -> Iterator[Block]:
    """Return the chapter.

    Parameters
    ----------
    results : Results
        Our cells.
    published : polars.DataFrame
        From `experiments.data.adgym.published`; without rows, only our results are shown.
    """
    cells = results.select(_SUITE)
    seeds = sorted({cell["seed"] for cell in cells})
    tables = sorted(
        {cell["dataset"] for cell in cells}, key=lambda name: (name.partition("_")[0].zfill(9), name)
    )
    there = published.filter(pl.col("seed").is_in(seeds), pl.col("table").is_in(tables))
    if set(seeds) - set(there["seed"]):  # other seeds are other rows
        there = there.clear()
    fields = {
        x: Field.of(
            results,
            _SUITE,
            x,
            METRICS,
            there.filter(labels=int(x)).group_by("table", "method").agg(pl.col(*METRICS).mean()),
            order={name: place for place, name in enumerate(tables)},
        )
        for x in sorted({cell["x"] for cell in cells})
    }
    yield Paragraph(
        f"{len(tables)} tables of ADBench, split and labelled exactly as ADGym (Jiang et al., NeurIPS 2023) did, seeds "
        f"{', '.join(map(str, seeds))}: at most 3,000 rows, 70 % of them for training, nothing scaled beforehand. "
        + (
            f"{len(set(there['method']))} methods as published by ADGym, and ours on the same rows."
            if there.height
            else "The published results for these seeds are not available, so only ours are shown."
        )
    )
    yield Items(
        [
            *(f"{x:g} labels, {headline(field, METRICS)}" for x, field in fields.items()),
            *_self_checks(results, there),
        ]
    )
    yield from _scalings(results)
    yield from curves(fields, METRICS, "labels", omitted=_NAMESAKES)
    for x, field in fields.items():
        yield Heading(f"{x:g} labels", 3)
        yield method_grid(field, METRICS)
        yield from diagrams(field, METRICS)
        yield _table_by_table(field)


def _scalings(results: Results) -> Iterator[Block]:
    """Show methods with their published scaling and with ranks, on the cells that have both."""
    cells = {
        (cell["method"], cell["x"], cell["dataset"], cell["seed"]): cell for cell in results.select(_SUITE)
    }
    labels, rows = sorted({key[1] for key in cells}), []
    for both, published in RESCALED.items():
        row = [Entry(published)]
        for x, metric in product(labels, METRICS):
            pairs = [
                (cells[published, x, *place][metric], cell[metric])
                for (method, own, *place), cell in cells.items()
                if (method, own) == (both, x) and (published, x, *place) in cells
            ]
            means = np.mean(pairs, axis=0) if pairs else (None, None)
            row.append(Entry(" → ".join(map(number_text, means))))
        if any(key[0] == both for key in cells):
            rows.append(row)
    if rows:
        head = ["method", *(f"{x:g} labels, {METRICS[metric]}" for x, metric in product(labels, METRICS))]
        text = (
            'Columns scaled by minimum and maximum, as published → by the mean of that and ranks (scale="both"): means '
            "over tables and seeds. Elsewhere on this page, names that end in (both) have the latter."
        )
        yield Grid(head, rows, text)


def _self_checks(results: Results, published: pl.DataFrame) -> Iterator[str]:
    """Compare cells with the published results of the same method."""
    rows = published.select("table", "seed", "labels", "method", *METRICS).rows()
    theirs = {row[:4]: row[4:] for row in rows}
    for ours, name in _NAMESAKES.items():
        differences = [
            max(abs(cell[metric] - area) for metric, area in zip(METRICS, theirs[key], strict=True))
            for cell in results.select(_SUITE)
            if cell["method"] == ours
            and (key := (cell["dataset"], cell["seed"], int(cell["x"]), name)) in theirs
        ]
        if differences:
            # Both are rounded to six decimals.
            same = sum(difference <= 1.01e-6 for difference in differences)
            yield (
                f"Self-check: {ours} repeats the published {name} to six decimals, in both metrics, in {same} of "
                f"{len(differences)} cells; the largest difference is {max(differences):.2g}."
            )


def _table_by_table(field: Field) -> Grid:
    """Show our methods on each table, with CatBoost and the best method as published."""
    n_ours, rows = len(field.ours), []
    for name, values in zip(field.tables, field.areas["auc_pr"], strict=True):
        entries = [
            Entry(number_text(float(value)), strong=value == np.nanmax(values)) for value in values[:n_ours]
        ]
        if field.published:
            theirs = dict(zip(field.published, values[n_ours:].tolist(), strict=True))
            best = max(theirs, key=lambda method: np.nan_to_num(theirs[method], nan=-1.0))
            entries += [
                Entry(number_text(theirs.get("CatB"))),
                Entry(number_text(theirs[best]), best, strong=theirs[best] == np.nanmax(values)),
            ]
        rows.append([Entry(name), *entries])
    head = ["AUC-PR", *field.ours, *(("CatB (published)", "best published") if field.published else ())]
    return Grid(head, rows, "Means over the seeds.")
