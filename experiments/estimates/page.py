"""The chapter about estimates: how often the interval of right alerts covers the truth."""

from collections.abc import Iterator

import polars as pl

from dplan._html.blocks import Block, Entry, Grid, Paragraph
from experiments.data.sources import COLLECTIONS, collection_of
from experiments.results import Results

__all__ = ["estimates_chapter", "intervals"]

_SUITE = "estimates"


def estimates_chapter(results: Results) -> Iterator[Block]:
    """Return the chapter."""
    table = intervals(results)
    told = table.filter(pl.col("low").is_not_null())
    seeds = table["seed"].unique().sort().cast(pl.String).to_list()
    yield Paragraph(
        f"{table['table'].n_unique()} tables, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}. "
        "The training rows of a task are divided into halves, each "
        "with half of the labelled anomalies. dplan fit learns one half with its labels and says how many of the "
        "highest scores of as many new rows will be anomalies, with a 90 % interval. The other half are these new "
        "rows. Anomalies of classes that nobody has labelled count as right alerts, too, although the estimate cannot "
        "know of them. Of ADGym's tables, 3,000 rows are drawn; of the others, at most 3,000 unlabelled rows."
    )
    if told.is_empty():
        yield Paragraph("There were too few labels to tell in all cells.")
        return
    inside = told.filter(_covered())
    below, above = told.filter(pl.col("right") < pl.col("low")), told.filter(pl.col("right") > pl.col("high"))
    yield Paragraph(
        f"The interval covers the truth in {_share(inside, told)} of {told.height} fits; the truth is below it in "
        f"{_share(below, told)} and above it in {_share(above, told)}. In {table.height - told.height} fits there were "
        "too few labels to tell."
    )
    yield _coverage(told)
    yield _misses(told)


def intervals(results: Results) -> pl.DataFrame:
    """Return one row per cell: collection, table, known, seed, right, budget, expected, low and high."""
    empty = dict.fromkeys(("budget", "expected", "low", "high"))
    rows = [
        {
            "collection": collection_of(cell["scenario"]),
            "table": cell["dataset"],
            "known": int(cell["x"]),
            "seed": cell["seed"],
            "right": cell["right"],
            **{name: (cell["estimate"] or empty)[name] for name in empty},
        }
        for cell in results.select(_SUITE)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _covered() -> pl.Expr:
    return pl.col("right").is_between(pl.col("low"), pl.col("high"))


def _share(part: pl.DataFrame, whole: pl.DataFrame) -> str:
    return f"{100 * part.height / whole.height:.0f} %"


def _coverage(told: pl.DataFrame) -> Grid:
    groups = [(title, told.filter(collection=name)) for name, title in COLLECTIONS.items()]
    groups += [
        (f"{known // 2} known anomalies", told.filter(known=known)) for known in told["known"].unique().sort()
    ]
    rows = []
    for title, part in [*groups, ("all", told)]:
        if part.is_empty():
            continue
        means = part.select(
            right=pl.col("right") / pl.col("budget"),
            expected=pl.col("expected") / pl.col("budget"),
            width=(pl.col("high") - pl.col("low")) / pl.col("budget"),
        ).mean()
        rows.append(
            [
                Entry(title),
                Entry(f"{part.height}"),
                Entry(_share(part.filter(_covered()), part)),
                *(Entry(f"{100 * means[name].item():.0f} %") for name in means.columns),
            ]
        )
    head = ["", "fits", "covered", "right alerts", "expected", "width of the interval"]
    caption = (
        "How often the 90 % interval covers the truth; the last three are means, as shares of the budget."
    )
    return Grid(head, rows, caption, text_columns=(0,))


def _misses(told: pl.DataFrame) -> Grid:
    missed = (
        told.with_columns(covered=_covered())
        .group_by("table", "known")
        .agg(pl.len(), (~pl.col("covered")).sum().alias("missed"), pl.col("right", "low", "high").mean())
        .filter(pl.col("missed") > 0)
        .sort("missed", "table", "known", descending=[True, False, False])
    )
    rows = [
        [
            Entry(row["table"]),
            Entry(f"{row['known'] // 2}"),
            Entry(f"{row['missed']} of {row['len']}"),
            Entry(f"{row['right']:.1f}"),
            Entry(f"{row['low']:.1f} to {row['high']:.1f}"),
        ]
        for row in missed.to_dicts()
    ]
    head = ["table", "known anomalies", "fits missed", "right alerts", "interval"]
    return Grid(head, rows, "Where the interval misses the truth; means over the seeds.", text_columns=(0, 4))
