"""The chapter about anomalies of unknown classes."""

from collections.abc import Iterator, Mapping

import numpy as np

from dplan._html.blocks import Block, Entry, Grid, Heading, Items, Paragraph
from experiments.charts import METRICS, number_text
from experiments.data.sources import source_name
from experiments.fields import Field, Metrics, curves, diagrams, headline, method_grid
from experiments.results import Results

__all__ = ["unknown_chapter"]

_SUITE = "unknown"
# The unknown classes are what the suite is about; the others show the price that is paid for them.
_QUESTIONS: dict[str, Metrics] = {
    name: {f"{metric}{suffix}": f"{title}, {name}" for metric, title in METRICS.items()}
    for suffix, name in (("_unknown", "unknown classes"), ("_known", "known class"), ("", "all anomalies"))
}
_EVERYTHING = {metric: title for metrics in _QUESTIONS.values() for metric, title in metrics.items()}


def unknown_chapter(results: Results) -> Iterator[Block]:
    """Return the chapter."""
    cells = results.select(_SUITE)
    families = {cell["dataset"]: source_name(cell["scenario"]).split("/")[0] for cell in cells}
    order = {family: place for place, family in enumerate(dict.fromkeys(families.values()))}
    fields = {
        x: Field.of(
            results, _SUITE, x, _EVERYTHING, order={name: order[family] for name, family in families.items()}
        )
        for x in sorted({cell["x"] for cell in cells})
    }
    seeds = sorted({cell["seed"] for cell in cells})
    yield Paragraph(
        f"{len(families)} tables, seeds {seeds[0]} to {seeds[-1]}. The labelled anomalies are of one class; anomalies "
        "of the other classes are hidden among the unlabelled rows and in the test rows. There are three questions: "
        "how anomalies of unknown classes, of the known class, and all together rank among the normal test rows alone. "
        "Explorers is the unsupervised part of DPLANEnsemble; it and IForest see no labels."
    )
    for name, metrics in _QUESTIONS.items():
        yield Heading(name.capitalize(), 3)
        yield Items([f"{x:g} labels, {headline(field, metrics)}" for x, field in fields.items()])
        yield from curves(fields, metrics, "labels")
        for x, field in fields.items():
            yield Heading(f"{name.capitalize()}, {x:g} labels", 4)
            yield method_grid(field, metrics)
            if name == "unknown classes":
                yield from diagrams(field, metrics)
            yield _families(field, families, name)


def _families(field: Field, families: Mapping[str, str], question: str) -> Grid:
    """Show the means by the origin of the tables."""
    chosen = {
        family: [families[name] == family for name in field.tables]
        for family in dict.fromkeys(families[name] for name in field.tables)
    }
    rows = []
    for i, method in enumerate(field.ours):
        means = [
            [float(np.nanmean(field.areas[metric][mask, i])) for metric in _QUESTIONS[question]]
            for mask in chosen.values()
        ]
        rows.append([Entry(method), *(Entry(" / ".join(map(number_text, pair))) for pair in means)])
    head = [question, *(f"{name} ({sum(mask)})" for name, mask in chosen.items())]
    return Grid(head, rows, "AUC-PR / AUC-ROC by the origin of the tables, with their number.")
