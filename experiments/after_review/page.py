"""The chapter about what verdicts teach: average precision on rows that nobody has judged, before and after them."""

from collections.abc import Collection, Iterator, Sequence

import polars as pl

from dplan._html.blocks import Block, Entry, Figure, Grid, Heading, Items, Paragraph
from experiments.after_review.verdicts import KINDS
from experiments.charts import Line, number_text, panels
from experiments.data.sources import COLLECTIONS, collection_of
from experiments.fields import OURS
from experiments.results import Results

__all__ = ["after_review_chapter", "differences"]

_SUITE = "after-review"
_LOSS = 0.02
_MOST_LOSSES = 12
_ALL = "all tables"


def after_review_chapter(results: Results) -> Iterator[Block]:
    """Return the chapter."""
    table = differences(results)
    seeds = sorted({cell["seed"] for cell in results.select(_SUITE)})
    methods = sorted(table["method"].unique(), key=lambda name: (name != OURS, name))
    yield Paragraph(
        f"{table['table'].n_unique()} tables, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}. "
        "A detector is fitted with some known "
        "anomalies. The truth judges training rows that it scores highest: the highest normal rows (false alarms), "
        "the highest anomalies (finds), or the highest rows whatever they are (both), also with one wrong verdict in "
        "ten. The detector is then fitted again with these verdicts, all at once, and evaluated on test rows that "
        "nobody has judged. Where a table has fewer such rows than verdicts, all of them are judged."
    )
    yield Paragraph(
        "ADGym's tables are its published splits, with at most 3,000 rows. Of the others, at most 3,000 unlabelled "
        "rows and 5,000 test rows are drawn. Without a known anomaly, BoostedBaseline and CatBoost are isolation "
        "forests."
    )
    yield _coverage(table, methods)
    yield Items([*_sentences(table, methods[0]), *_luck(results, methods)])
    if OURS in methods:
        for rival in methods[1:]:
            seeds_of = [
                {cell["seed"] for cell in results.select(_SUITE) if cell["method"] == method}
                for method in (OURS, rival)
            ]
            yield _beside(differences(results, set.intersection(*seeds_of)), rival)
    yield _curves(table, methods)
    yield _counts(table.filter(pl.col("method") == methods[0]))
    for method in methods:
        own = table.filter(pl.col("method") == method)
        yield Heading(method, 3)
        for known in sorted(own["known"].unique()):
            yield _changes(own.filter(pl.col("known") == known), known)
        yield _losses(own)


def differences(results: Results, among: Collection[int] | None = None) -> pl.DataFrame:
    """Return one row per table, method, number of known anomalies, kind and number of verdicts: means over the seeds.

    With `among`, only these seeds count.

    The columns are collection, table, known, method, kind, n, judged, finds, before, after and change.
    """
    rows = [
        {
            "collection": collection_of(cell["scenario"]),
            "table": cell["dataset"],
            "known": int(cell["x"]),
            "method": cell["method"],
            **{name: arm[name] for name in ("kind", "n", "judged", "finds")},
            "before": cell["auc_pr"],
            "after": arm["auc_pr"],
            "change": arm["auc_pr"] - cell["auc_pr"],
        }
        for cell in results.select(_SUITE)
        if among is None or cell["seed"] in among
        for arm in cell["arms"]
    ]
    place = ["collection", "table", "known", "method", "kind", "n"]
    return pl.DataFrame(rows).group_by(place, maintain_order=True).mean()


def _sentences(table: pl.DataFrame, method: str) -> Iterator[str]:
    """Say for one method what a few numbers of verdicts change on average, and where a collection loses."""
    own = table.filter(pl.col("method") == method)
    for known in sorted(own["known"].unique()):
        texts = []
        for kind, n in (("false alarms", 1), ("false alarms", 10), ("false alarms", 30), ("both", 40)):
            arm = own.filter(known=known, kind=kind, n=n)
            what = "verdicts on the highest rows" if kind == "both" else kind[: -1 if n == 1 else None]
            texts.append(f"{n} {what} {_change(arm)}")
        before = own.filter(pl.col("known") == known)["before"].mean()
        yield (
            f"{method}, {known} known anomalies: mean average precision {number_text(before)} without verdicts; "  # type: ignore[arg-type]
            f"change after {'; '.join(texts)}."
        )
    means = own.group_by("collection", "known", "kind", "n", maintain_order=True).agg(pl.col("change").mean())
    lower = means.filter(pl.col("change") < -0.0005).sort("change")
    worst = ", ".join(
        f"{COLLECTIONS[row['collection']]} with {row['known']} known after {row['n']} of {row['kind']} "
        f"({number_text(row['change'], sign=True)})"
        for row in lower.head(4).to_dicts()
    )
    yield (
        f"Of {means.height} means over a collection (by known anomalies, kind and number of verdicts), {lower.height} "
        f"are lower than without verdicts{': lowest ' + worst if worst else ''}."
    )


def _luck(results: Results, methods: Sequence[str]) -> Iterator[str]:
    """Say what another seed changes: as much of a change after verdicts may be luck."""
    rows = [
        {
            "method": cell["method"],
            "table": cell["dataset"],
            "known": int(cell["x"]),
            "change": cell["another_seed"] - cell["auc_pr"],
        }
        for cell in results.select(_SUITE)
        if cell.get("another_seed") is not None
    ]
    if not rows:
        return
    means = pl.DataFrame(rows).group_by("method", "table", "known").mean()
    texts = [
        f"{method}, {known} known {_change(means.filter(method=method, known=known))}"
        for method in methods
        for known in means.filter(method=method)["known"].unique().sort()
    ]
    yield (
        "A fit with verdicts also draws other random numbers. Another seed alone, without verdicts, changes average "
        f"precision, too: {'; '.join(texts)}. Where no more tables lose after verdicts than with another seed, the "
        "losses may be luck."
    )


def _coverage(table: pl.DataFrame, methods: Sequence[str]) -> Grid:
    """Show on how many tables of each collection a method was run."""
    there = [name for name in COLLECTIONS if name in table["collection"]]
    rows = []
    for method in methods:
        for known in sorted(table.filter(method=method)["known"].unique()):
            part = table.filter(method=method, known=known)
            counts = [part.filter(collection=name)["table"].n_unique() for name in there]
            rows.append([Entry(method), *(Entry(str(count)) for count in (known, *counts, sum(counts)))])
    return Grid(
        ["method", "known anomalies", *(COLLECTIONS[name] for name in there), "all"],
        rows,
        "Tables that have been run. Means over all tables are over these, so those of methods that were run on "
        "different tables cannot be compared.",
        text_columns=(0,),
    )


def _beside(table: pl.DataFrame, rival: str) -> Grid:
    """Show average precision of ours beside that of a rival after each kind of verdicts, on the tables of both."""
    place = ["collection", "table", "known", "kind", "n"]
    own, other = (table.filter(method=method) for method in (OURS, rival))
    pairs = own.join(other, on=place, suffix="_rival")
    rows = []
    for known in sorted(pairs["known"].unique()):
        part = pairs.filter(known=known)
        without = part.unique(["collection", "table"])
        arms = [("none", 0, without["before"], without["before_rival"])]
        for kind, numbers in KINDS.items():
            for n in numbers:
                arm = part.filter(kind=kind, n=n)
                arms.append((kind, n, arm["after"], arm["after_rival"]))
        for kind, n, ours, theirs in arms:
            mean, error = _mean_and_error(ours - theirs)
            areas = [number_text(values.mean()) for values in (ours, theirs)]  # type: ignore[arg-type]
            texts = [f"{known} ({len(ours)})", kind, str(n), *areas, f"{mean} ± {error}"]
            rows.append([Entry(text) for text in texts])
    return Grid(
        ["known anomalies (tables)", "verdicts", "number", OURS, rival, "difference"],
        rows,
        f"Average precision of {OURS} and {rival} on test rows without verdicts, on the same tables and seeds: means, "
        "and the difference with its standard error over the tables. The verdicts are on rows that each of them scores "
        "highest.",
        text_columns=(1,),
    )


def _change(arm: pl.DataFrame) -> str:
    """Return the mean change over tables, its standard error, and the share of tables that lose.

    Examples
    --------
    >>> _change(pl.DataFrame({"change": [0.1, 0.0, -0.03, 0.01]}))
    '+0.020 ± 0.028 (25 % lose)'
    """
    mean, error = _mean_and_error(arm["change"])
    return f"{mean} ± {error} ({_share_that_lose(arm)} lose)"


def _mean_and_error(values: pl.Series) -> tuple[str, str]:
    deviation = values.std()
    error = None if deviation is None else float(deviation) / len(values) ** 0.5  # type: ignore[arg-type]
    return number_text(values.mean(), sign=True), number_text(error)  # type: ignore[arg-type]


def _share_that_lose(arm: pl.DataFrame) -> str:
    return f"{100 * (arm['change'] < -_LOSS).sum() / max(arm.height, 1):.0f} %"


def _groups(own: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the collections that are there, and all tables."""
    for name, title in COLLECTIONS.items():
        part = own.filter(pl.col("collection") == name)
        if part.height:
            yield f"{title} ({part['table'].n_unique()})", part
    yield f"{_ALL} ({own['table'].n_unique()})", own


def _changes(own: pl.DataFrame, known: int) -> Grid:
    numbers = sorted({n for some in KINDS.values() for n in some})
    rows = []
    for title, part in _groups(own):
        for kind in KINDS:
            entries = []
            for n in numbers:
                arm = part.filter(kind=kind, n=n)
                if not arm.height:
                    entries.append(Entry("–"))
                    continue
                mean, error = _mean_and_error(arm["change"])
                entries.append(Entry(f"{mean} ± {error}", note=_share_that_lose(arm)))
            before = number_text(part.unique("table")["before"].mean())  # type: ignore[arg-type]
            rows.append([Entry(title), Entry(kind), Entry(before), *entries])
    return Grid(
        [f"{known} known anomalies", "verdicts", "before", *(f"after {n}" for n in numbers)],
        rows,
        "Average precision on test rows without verdicts, and its change: mean over the tables ± standard error, and "
        f"the share of the tables that lose more than {_LOSS:g}.",
        text_columns=(0, 1),
    )


def _counts(own: pl.DataFrame) -> Grid:
    """Show how many verdicts there were, and how many of them were anomalies."""
    rows = []
    for known in sorted(own["known"].unique()):
        for kind, numbers in KINDS.items():
            part = own.filter(known=known, kind=kind)
            means = {
                n: part.filter(pl.col("n") == n).select("judged", "finds").mean().row(0) for n in numbers
            }
            texts = [f"{n}: {judged:.1f} / {finds:.1f}" for n, (judged, finds) in means.items()]
            rows.append([Entry(str(known)), Entry(kind), Entry(", ".join(texts))])
    return Grid(
        ["known anomalies", "verdicts", "asked: judged / anomalies among them"],
        rows,
        f"How many rows were judged for {own['method'][0]}, and how many of them are anomalies, on average.",
        text_columns=(0, 1, 2),
    )


def _losses(own: pl.DataFrame) -> Grid:
    worst = own.sort("change", "table", "kind", "n", "known").head(_MOST_LOSSES)
    rows = [
        [
            Entry(row["table"]),
            Entry(str(row["known"])),
            Entry(row["kind"]),
            Entry(str(row["n"])),
            Entry(f"{row['finds']:.0f}"),
            Entry(number_text(row["before"])),
            Entry(number_text(row["after"])),
            Entry(number_text(row["change"], sign=True)),
        ]
        for row in worst.to_dicts()
    ]
    head = [
        "table",
        "known anomalies",
        "verdicts",
        "number",
        "anomalies among them",
        "before",
        "after",
        "change",
    ]
    return Grid(head, rows, "The largest losses of average precision.", text_columns=(0, 2))


def _curves(table: pl.DataFrame, methods: Sequence[str]) -> Figure:
    """Draw the mean change over all tables by the number of verdicts: a panel per kind and known anomalies."""
    charts: dict[str, dict[str, Line]] = {}
    rows = []
    for known in sorted(table["known"].unique()):
        for kind, numbers in KINDS.items():
            for method in methods:
                arms = [table.filter(known=known, kind=kind, n=n, method=method)["change"] for n in numbers]
                if not len(arms[0]):
                    continue
                means = [0.0, *(float(arm.mean()) for arm in arms)]  # type: ignore[arg-type]
                charts.setdefault(f"{known} known, {kind}", {})[method] = Line([0, *numbers], means)
                texts = [
                    f"{n}: {number_text(mean, sign=True)}" for n, mean in zip(numbers, means[1:], strict=True)
                ]
                rows.append([Entry(str(known)), Entry(kind), Entry(method), Entry(", ".join(texts))])
    return Figure(
        panels(charts, "verdicts", "change of average precision"),
        "Mean change by the number of verdicts, over all tables that a method was run on.",
        Grid(
            ["known anomalies", "verdicts", "method", "change after"],
            rows,
            text_columns=(0, 1, 2, 3),
        ),
    )
