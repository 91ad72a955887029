"""
Kinds of alerts
===============

Two hundred alerts are rarely two hundred different stories. A kind is a group of alerts whose scores
the same columns raise, with a rule that people can read and databases can run.
"""

from collections import Counter

import numpy as np
import polars as pl

import dplan
from dplan.datasets import scenario
from dplan.rules.sql import script
from dplan.tables import fit_table, from_table

task = scenario("covertype-mini/cottonwood-v1")
label = [task.classes[k] if k else None for k in task.y]  # cottonwood, for the 60 known plots
table = from_table(task.features.with_columns(label=pl.Series(label)), label="label", anomaly=["cottonwood"])
model = fit_table(table, dplan.DPLANEnsemble(random_state=0), estimate=False)
kinds = dplan.kinds(model, task.features_test, budget=200, n_kinds=4)
kinds

# %%
# Here, the truth is known. Douglas-fir is a class that nobody has labelled. A kind that is *like* a known
# class may contain another one, too.
for group in kinds.groups:
    print(group.kind.name, Counter(task.classes[k] for k in task.y_test[group.alerts.rows]))

# %%
# The first rule as a query.
print(script(kinds.rules.rules[:1], "postgresql", "plots"))

# %%
# On the map, rows that the detector finds similar are close together.
groups = np.full(task.features_test.height, "other rows", dtype=object)
for group in kinds.groups:
    groups[group.alerts.rows] = group.kind.name
dplan.plot.map(model, task.features_test, groups)
