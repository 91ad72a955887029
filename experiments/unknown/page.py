"""The chapter about anomalies of unknown classes."""

from collections.abc import Iterator, Mapping

import numpy as np

from dplan._html.blocks import Block, Entry, Grid, Heading, Items, Paragraph
from experiments.charts import METRICS, number_text
from experiments.data.sources import source_name
from experiments.fields import Field, curves, diagrams, headline, method_grid
from experiments.paper.tables import averages
from experiments.results import Results

__all__ = ["unknown_chapter"]

_SUITE = "unknown"
_UNKNOWN = {f"{metric}_unknown": f"{title}, unknown classes" for metric, title in METRICS.items()}
_GROUPS = {"": "all", "_known": "known", "_unknown": "unknown"}


def unknown_chapter(results: Results) -> Iterator[Block]:
    """Return the chapter."""
    cells = results.select(_SUITE)
    families = {cell["dataset"]: source_name(cell["scenario"]).split("/")[0] for cell in cells}
    order = {family: place for place, family in enumerate(dict.fromkeys(families.values()))}
    fields = {
        x: Field.of(
            results, _SUITE, x, _UNKNOWN, order={name: order[family] for name, family in families.items()}
        )
        for x in sorted({cell["x"] for cell in cells})
    }
    seeds = sorted({cell["seed"] for cell in cells})
    yield Paragraph(
        f"{len(families)} tables, seeds {seeds[0]} to {seeds[-1]}. The labelled anomalies are of one class; anomalies "
        "of the other classes are hidden among the unlabelled rows and in the test rows. Each group of anomalies is "
        "ranked against the normal test rows alone. Explorers is the unsupervised part of DPLANEnsemble; it and "
        "IForest see no labels."
    )
    yield Items([f"{x:g} labels, {headline(field, _UNKNOWN)}" for x, field in fields.items()])
    yield from curves(fields, _UNKNOWN, "labels")
    for x, field in fields.items():
        yield Heading(f"{x:g} labels", 3)
        columns = {
            f"{title} {group}": {
                key: spread
                for key, spread in results.groups(_SUITE, "resampled", metric + suffix).items()
                if key[1] == x
            }
            for metric, title in METRICS.items()
            for suffix, group in _GROUPS.items()
        }
        yield averages(
            field.ours, columns, "All anomalies, those of the known class, and those of unknown classes."
        )
        yield method_grid(field, _UNKNOWN)
        yield from diagrams(field, _UNKNOWN)
        yield _families(field, families)


def _families(field: Field, families: Mapping[str, str]) -> Grid:
    """Show the means on unknown classes by the origin of the tables."""
    chosen = {
        family: [families[name] == family for name in field.tables]
        for family in dict.fromkeys(families[name] for name in field.tables)
    }
    rows = []
    for i, method in enumerate(field.ours):
        means = [
            [float(np.nanmean(field.areas[metric][mask, i])) for metric in _UNKNOWN]
            for mask in chosen.values()
        ]
        rows.append([Entry(method), *(Entry(" / ".join(map(number_text, pair))) for pair in means)])
    head = ["unknown classes", *(f"{name} ({sum(mask)})" for name, mask in chosen.items())]
    return Grid(head, rows, "AUC-PR / AUC-ROC by the origin of the tables, with their number.")
