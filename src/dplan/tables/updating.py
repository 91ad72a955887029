"""Continue training a model with new labels."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dplan.detectors._base import Detector
from dplan.detectors._registry import list_detectors
from dplan.tables.fitting import assemble, row_name
from dplan.tables.labels import LabelledTable
from dplan.tables.model import TableModel

__all__ = ["update_model"]


def update_model(model: TableModel, table: LabelledTable, *, seed: int = 0) -> TableModel:
    """Return a model trained further on new rows, together with the rows stored in the old model.

    Training also uses the known anomalies and the unlabelled rows stored in the old model, so that it does not forget
    old anomalies. Columns are prepared as before: levels unseen in the first training stay unseen.

    Parameters
    ----------
    model : TableModel
        A model whose detector has `partial_fit`.
    table : LabelledTable
        New rows, from `dplan.tables.from_table`.
    seed : int, default=0
        Seed of the training and for the choice of the rows stored in the model.

    Returns
    -------
    TableModel
        The updated model; the old one is not changed.
    """
    if not hasattr(model.detector, "partial_fit"):
        able = [entry.name for entry in list_detectors() if hasattr(entry.detector, "partial_fit")]
        raise TypeError(
            f"{type(model.detector).__name__} cannot be updated ({' and '.join(able)} can); "
            "fit a new model on the old and new rows"
        )
    started = time.perf_counter()
    names = list(model.summary["labels"])
    for name in table.classes[1:]:
        if name not in names:
            names.append(name)
    new_classes = np.array([0, *(names.index(name) for name in table.classes[1:])])[table.y]
    with table.located():
        X_new = model.prepare(table.features)
    X = np.concatenate([model.known_anomalies, model.background, X_new])
    y = np.concatenate([model.known_classes, np.zeros(len(model.background), dtype=np.int64), new_classes])
    detector = copied(model.detector).set_params(random_state=seed)
    detector.partial_fit(X, y)
    summary: dict[str, Any] = dict(model.summary)
    added = np.bincount(new_classes, minlength=len(names))
    summary["labels"] = {name: int(summary["labels"].get(name, 0) + added[k]) for k, name in enumerate(names)}
    summary["rows"] = int(summary["rows"]) + len(X_new)
    update = {
        "rows": len(X_new),
        "labels": table.counts(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    summary["updates"] = [*summary.get("updates", []), update]
    summary["estimate"] = None  # it was the old model's
    names_before, n_before = model.summary.get("known_names", []), len(X) - len(X_new)

    def name_of(row: int) -> str:
        if row >= n_before:
            return row_name(table.ids, row - n_before)
        return names_before[row] if row < len(names_before) else "a known anomaly"

    return assemble(detector, model.preparation, X, y, summary, np.random.default_rng(seed), name_of)


def copied(detector: Detector) -> Any:
    """Return a fitted copy whose training does not change the original."""
    copy = type(detector)(**detector.get_params(deep=False))
    for name, value in vars(detector).items():
        if name.endswith("_"):
            if isinstance(value, np.ndarray):
                value = value.copy()
            elif isinstance(value, dict):
                value = {key: list(values) for key, values in value.items()}
            setattr(copy, name, value)
    return copy
