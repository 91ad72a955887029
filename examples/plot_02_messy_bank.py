"""
A messy bank export
===================

A table as people have it: decimal commas, currencies, dates in the German order, missing values.
Nothing has to be cleaned.
"""

# sphinx_gallery_thumbnail_path = "images/notebook.png"
from importlib.resources import files

import polars as pl

import dplan
from dplan.tables import fit_table, from_table

folder = files("dplan.datasets")
train = pl.read_parquet(folder.joinpath("bank_train.parquet").read_bytes())
new = pl.read_parquet(folder.joinpath("bank_new.parquet").read_bytes())
train.head(3)

# %%
# Columns are understood from their values. Overrule one with ``columns``.
table = from_table(
    train,
    label="Urteil",
    anomaly=["fraud"],
    normal=["ok"],
    id="Nummer",
    columns={"Filiale": "drop"},
)
model = fit_table(table, dplan.DPLANEnsemble(random_state=0), estimate=False)
model

# %%
# The alerts, with the values as the bank wrote them.
model.alerts(new, budget=5)
