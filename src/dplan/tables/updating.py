"""Continue training a model with new verdicts."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.detectors._base import Detector
from dplan.detectors._registry import list_detectors
from dplan.tables.fitting import assemble, row_name
from dplan.tables.labelled import LabelledTable
from dplan.tables.labels import Judged
from dplan.tables.model import TableModel
from dplan.tables.row_keys import feature_keys, row_keys

__all__ = ["Change", "changes", "trained_with", "update_model"]

_HELD_OUT_SHARE = 0.3
_FEWEST_TO_HOLD_OUT = 10  # verdicts; with fewer, the changes are those of the verdicts themselves


@dataclass(frozen=True)
class Change:
    """How alerts for rows with verdicts change from one model to the next.

    Attributes
    ----------
    held_out : bool
        Whether the verdicts were held out, or learned.
    finds, found_before, found_after : int
        Rows that are anomalies, and how many of them were and are alerts.
    normal, false_before, false_after : int
        Rows that are normal, and how many of them were and are alerts.
    """

    held_out: bool
    finds: int
    found_before: int
    found_after: int
    normal: int
    false_before: int
    false_after: int

    @property
    def precision(self) -> tuple[float, float]:
        """Share of anomalies among the alerts, before and after; NaN without alerts."""
        pairs = ((self.found_before, self.false_before), (self.found_after, self.false_after))
        before, after = (found / (found + wrong) if found + wrong else np.nan for found, wrong in pairs)
        return before, after


def update_model(model: TableModel, table: LabelledTable | Judged, *, seed: int = 0) -> TableModel:
    """Return a model trained further on new rows, together with the rows stored in the old model.

    Training also uses the known anomalies, checked normal rows and unlabelled rows stored in the old model, so that it
    does not forget them. A row that had a verdict before is recognised by its ids or, without ids, by its values; the
    later verdict wins. Columns are prepared as before: levels unseen in the first training stay unseen.

    Parameters
    ----------
    model : TableModel
        A model whose detector has `partial_fit`.
    table : LabelledTable or Judged
        New rows, from `dplan.tables.from_table` or `dplan.tables.read_queue`.
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
    return trained_with(
        model, as_verdicts(model, table), copied(model.detector).set_params(random_state=seed), seed=seed
    )


def trained_with(model: TableModel, new: Judged, detector: Any, *, seed: int = 0) -> TableModel:
    """Train a detector on new rows and on those stored in a model; return it as the next model.

    Parameters
    ----------
    model : TableModel
        The model.
    new : Judged
        New rows.
    detector : Detector
        A copy of the model's detector, or an unfitted one; it is trained in place.
    seed : int, default=0
        Seed for the choice of the rows stored in the model.
    """
    started = time.perf_counter()
    names = list(dict.fromkeys([*model.summary.labels, *new.classes[1:]]))
    codes = np.array([0, *(names.index(name) for name in new.classes[1:]), -1])[new.y]  # -1 is the last
    merged = _merge(model, new, codes)
    getattr(detector, "partial_fit", detector.fit)(merged.rows, merged.y)
    new_names = dict(zip(new.keys, new.names, strict=False))
    slips = [merged.keys[row] for row in getattr(detector, "slips_", ())]
    update = {
        "rows": len(new.y),
        "labels": {name: int((codes == k).sum()) for k, name in enumerate(names)},
        "checked_normal": int((codes < 0).sum()),
        "slips": [new_names[key] for key in slips if key in new_names],
        "seconds": round(time.perf_counter() - started, 3),
    }
    old, sizes = model.summary, merged.sizes
    summary = replace(
        old,
        rows=old.rows + merged.n_new,
        labels={name: max(0, old.labels.get(name, 0) + sizes.get(k, 0)) for k, name in enumerate(names)},
        checked_normal=max(0, old.checked_normal + sizes.get(-1, 0)),
        estimate=None,  # it was the old model's
        updates=(*old.updates, update),
    )
    rng = np.random.default_rng(seed)
    # Checked rows, which come last, have no names.
    row_names = dict(zip(old.verdict_keys, old.known_names, strict=False)) | new_names
    return assemble(
        detector,
        model.preparation,
        merged.rows,
        merged.y,
        summary,
        rng,
        lambda rows: [merged.keys[row] for row in rows],
        lambda row: row_names.get(merged.keys[row], "a known anomaly"),
    )


def changes(
    model: TableModel, table: LabelledTable | Judged, updated: TableModel, *, seed: int = 0
) -> Change:
    """Return what an update changes for rows with verdicts: on held-out ones if there are at least ten.

    Parameters
    ----------
    model, table, updated
        The old model, the new rows, and the model after `update_model`.
    seed : int, default=0
        Seed of the choice of held-out rows and of the training without them.
    """
    new = as_verdicts(model, table)
    judged = np.flatnonzero(new.y)
    held_out = len(judged) >= _FEWEST_TO_HOLD_OUT
    if held_out:
        rng = np.random.default_rng(seed)
        parts = [rng.permutation(judged[(new.y[judged] > 0) == kind]) for kind in (True, False)]
        judged = np.sort(np.concatenate([part[: round(_HELD_OUT_SHARE * len(part))] for part in parts]))
        learned = np.setdiff1d(np.arange(len(new.y)), judged)
        # A row that appears twice must not be learned through its other appearance.
        keys = {new.keys[row] for row in judged}
        learned = np.array([row for row in learned if new.keys[row] not in keys], dtype=np.int64)
        some = replace(new, rows=new.rows[learned], y=new.y[learned], keys=[new.keys[i] for i in learned])
        updated = update_model(model, some, seed=seed)
    rows, anomalous = new.rows[judged], new.y[judged] > 0
    before, after = (m.is_alert(m.scores_of(rows)) for m in (model, updated))
    return Change(
        held_out,
        int(anomalous.sum()),
        int(before[anomalous].sum()),
        int(after[anomalous].sum()),
        int((~anomalous).sum()),
        int(before[~anomalous].sum()),
        int(after[~anomalous].sum()),
    )


def as_verdicts(model: TableModel, table: LabelledTable | Judged) -> Judged:
    """Return rows of a table prepared for a model."""
    if isinstance(table, Judged):
        return table
    with table.located():
        rows = model.prepare(table.features)
    ids = table.ids if table.ids.columns == list(model.summary.ids) else table.ids.select()
    names = [row_name(table, row) for row in range(len(rows))]
    return Judged(rows, table.y, table.classes, row_keys(ids, rows), ids.width > 0, names)


@dataclass(frozen=True, eq=False)
class _Merged:
    rows: Floats
    y: NDArray[np.int64]
    keys: list[str]
    sizes: dict[int, int]  # how many rows more or less there are with each label
    n_new: int


def _merge(model: TableModel, new: Judged, codes: NDArray[np.int64]) -> _Merged:
    """Put together the rows that a model remembers and new rows; of verdicts on the same row, the last one wins."""
    checked = model.known_anomalies[:0] if model.checked_normal is None else model.checked_normal
    rows = np.concatenate([model.known_anomalies, checked])
    labels = np.concatenate([model.known_classes, np.full(len(checked), -1, dtype=np.int64)])
    keys = model.summary.verdict_keys
    last = {key: int(code) for key, code in zip(new.keys, codes, strict=True) if code}
    places = {key: place for place, key in enumerate(new.keys) if codes[place]}
    remembered = set(keys)
    dropped = np.array([key in last for key in keys], dtype=bool)

    def counts(place: int) -> bool:
        """Return whether a new row is learned: not if another verdict on the same row came later."""
        key, code = new.keys[place], codes[place]
        if not new.identified:  # equal rows may be different records; only contradictions are settled
            return bool(code == 0 or code == last[key])
        return places[key] == place if key in last else key not in remembered

    taken = np.array([place for place in range(len(new.keys)) if counts(place)], dtype=np.int64)
    verdict_rows = {*feature_keys(rows[~dropped]), *feature_keys(new.rows[codes != 0])}
    background = np.array([key not in verdict_rows for key in feature_keys(model.background)], dtype=bool)
    if not background.any():
        background[:] = True
    sizes: dict[int, int] = {}
    for step, changed in ((-1, labels[dropped]), (1, codes[taken])):
        for code in changed.tolist():
            sizes[code] = sizes.get(code, 0) + step
    n_background = int(background.sum())
    return _Merged(
        np.concatenate([rows[~dropped], model.background[background], new.rows[taken]]),
        np.concatenate([labels[~dropped], np.zeros(n_background, dtype=np.int64), codes[taken]]),
        [
            *(key for key, gone in zip(keys, dropped, strict=True) if not gone),
            *[""] * n_background,
            *(new.keys[place] for place in taken),
        ],
        sizes,
        sum(new.keys[place] not in remembered for place in taken),
    )


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
