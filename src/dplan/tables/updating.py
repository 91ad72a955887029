"""Continue training a model with new verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.detectors._base import Detector
from dplan.detectors._registry import list_detectors
from dplan.persistence.previous import exchange, previous, replace_keeping
from dplan.tables.comparing import Comparison, Verdicts, compare
from dplan.tables.fitting import assemble, row_name
from dplan.tables.labelled import LabelledTable
from dplan.tables.labels import Judged
from dplan.tables.model import TableModel
from dplan.tables.row_keys import feature_keys, row_keys

__all__ = ["Update", "replace_model", "trained_with", "undo_update", "update_if_better", "update_model"]


@dataclass(frozen=True, eq=False)
class Update:
    """What became of an update.

    Attributes
    ----------
    model : TableModel
        The model to use from now on. It remembers the new verdicts in any case.
    is_new : bool
        Whether its ranking is the new one, or still the old one.
    comparison : Comparison or None
        How the two rankings compare; None if there were too few known anomalies, or if that was not asked for.

    Examples
    --------
    >>> update = Update(model=None, is_new=True, comparison=None)  # as `update_if_better` returns it
    >>> update.is_new
    True
    """

    model: TableModel
    is_new: bool
    comparison: Comparison | None


def update_if_better(
    model: TableModel,
    table: LabelledTable | Judged,
    *,
    seed: int = 0,
    force: bool = False,
    stage: Callable[[str], None] | None = None,
) -> Update:
    """Train a model further, like `update_model`, but keep its ranking if the new one is worse.

    The two rankings are compared on verdicts that neither has learned from: half of the new and earlier verdicts are
    held out, then the other half, and each time the detector is trained with and without the new verdicts. The new
    ranking is taken unless it is worse by more than chance explains. Even if the old ranking is kept, the model
    remembers the new verdicts, and the next update learns from them too.

    Parameters
    ----------
    model, table, seed
        As in `update_model`.
    force : bool, default=False
        Take the new ranking even if it is worse.
    stage : callable, optional
        Called with the name of each stage as it begins: "training", "comparing".

    Returns
    -------
    Update
        The model, whether it ranks in a new way, and the comparison.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from dplan import DPLAN
    >>> from dplan.tables import fit_table, from_table, update_if_better
    >>> amount = pl.Series("amount", np.random.default_rng(0).gamma(2, size=500))
    >>> known = (amount > 5) & (pl.int_range(500, eager=True) % 2 == 0)
    >>> rows = pl.DataFrame([amount, known.cast(pl.Int64).alias("fraud")])
    >>> quick = DPLAN(n_steps=600, warmup_steps=200, subsample_size=50, n_trees=10, random_state=0)
    >>> model = fit_table(from_table(rows, label="fraud"), quick, estimate=False)
    >>> new = pl.DataFrame({"amount": [7.0, 1.5, 2.5], "fraud": [1, -1, -1]})
    >>> update = update_if_better(model, from_table(new, label="fraud", partial=True))
    >>> update.model.summary.checked_normal
    2
    """
    begin = stage or (lambda name: None)
    begin("training")
    new = as_verdicts(model, table)
    updated = update_model(model, new, seed=seed)
    begin("comparing")
    codes, _ = _codes(model, new)
    merged = _merge(model, new, codes)
    learned = Verdicts(merged.rows, merged.y, merged.keys)
    comparison = compare(_remembered(model), learned, model.detector, seed=seed)
    if force or comparison is None or not comparison.is_worse:
        return Update(_noted(updated, comparison, ranking="new"), True, comparison)
    kept = replace(updated, detector=model.detector)
    kept = replace(kept, summary=replace(updated.summary, estimate=model.summary.estimate))
    return Update(_noted(kept, comparison, ranking="old"), False, comparison)


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

    Examples
    --------
    >>> import polars as pl
    >>> from dplan import DPLAN
    >>> from dplan.tables import fit_table, from_table
    >>> rows = pl.DataFrame({"amount": [*range(200), 900, 950], "fraud": [0] * 200 + [1, 1]})
    >>> quick = DPLAN(n_steps=300, warmup_steps=100, subsample_size=50, n_trees=10, random_state=0)
    >>> model = fit_table(from_table(rows, label="fraud"), quick, estimate=False)
    >>> new = pl.DataFrame({"amount": [920, 15], "fraud": [1, -1]})
    >>> update_model(model, from_table(new, label="fraud", partial=True)).summary.labels["1"]
    3
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
    codes, names = _codes(model, new)
    merged = _merge(model, new, codes)
    getattr(detector, "partial_fit", detector.fit)(merged.rows, merged.y)
    new_names = dict(zip(new.keys, new.names, strict=False))
    slips = [merged.keys[row] for row in getattr(detector, "slips_", ())]
    update = {
        "rows": len(new.y),
        "labels": {name: int((codes == k).sum()) for k, name in enumerate(names)},
        "checked_normal": int((codes < 0).sum()),
        "slips": [new_names[key] for key in slips if key in new_names],
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


def replace_model(path: str | Path, old: TableModel, new: TableModel) -> None:
    """Replace a model file by an update of it, such that `undo_update` brings the old one back."""
    replace_keeping(path, _noted(new, previous=old.digest).to_bytes())


def undo_update(path: str | Path) -> TableModel:
    """Undo the last update of a model file; called again, redo it.

    ``dplan update`` keeps the file that it replaces, with ``.previous`` after its name. The two are exchanged.

    Parameters
    ----------
    path : path
        A model file.

    Returns
    -------
    TableModel
        The model that the file contains now.

    Raises
    ------
    ValueError
        If there is nothing to undo: the file was not replaced by an update, or by something else since then.

    Examples
    --------
    >>> undo_update("never-updated.dplan")
    Traceback (most recent call last):
        ...
    ValueError: there is no update to undo: ...never-updated.dplan.previous does not exist
    """
    kept = previous(path)
    if not kept.exists():
        raise ValueError(f"there is no update to undo: {kept} does not exist")
    now, other = TableModel.load(path), TableModel.load(kept)
    # Which of the two was made from the other one.
    if not any(_last(one).get("previous") == before.digest for one, before in ((now, other), (other, now))):
        raise ValueError(f"there is no update to undo: {kept.name} is not what the last update replaced")
    exchange(path)
    return other


def as_verdicts(model: TableModel, table: LabelledTable | Judged) -> Judged:
    """Return rows of a table prepared for a model."""
    if isinstance(table, Judged):
        return table
    with table.located():
        rows = model.prepare(table.features)
    ids = table.ids if table.ids.columns == list(model.summary.ids) else table.ids.select()
    names = [row_name(table, row) for row in range(len(rows))]
    return Judged(rows, table.y, table.classes, row_keys(ids, rows), ids.width > 0, names)


def _codes(model: TableModel, new: Judged) -> tuple[NDArray[np.int64], list[str]]:
    """Return the labels of new rows among the classes that the model will have, and these."""
    names = list(dict.fromkeys([*model.summary.labels, *new.classes[1:]]))
    return np.array([0, *(names.index(name) for name in new.classes[1:]), -1])[new.y], names  # -1 is the last


def _remembered(model: TableModel) -> Verdicts:
    """Return the rows that a model has stored: known anomalies, checked normal rows, background rows."""
    checked = model.known_anomalies[:0] if model.checked_normal is None else model.checked_normal
    labels = [model.known_classes, np.full(len(checked), -1), np.zeros(len(model.background))]
    return Verdicts(
        np.concatenate([model.known_anomalies, checked, model.background]),
        np.concatenate(labels).astype(np.int64),
        [*model.summary.verdict_keys, *[""] * len(model.background)],
    )


def _last(model: TableModel) -> Mapping[str, Any]:
    """Return what a model says about its last update."""
    return model.summary.updates[-1] if model.summary.updates else {}


def _noted(model: TableModel, comparison: Comparison | None = None, **more: Any) -> TableModel:
    """Return a model that says more about its last update."""
    found = {} if comparison is None else {"compared": asdict(comparison)}
    *earlier, last = model.summary.updates
    return replace(model, summary=replace(model.summary, updates=(*earlier, {**last, **found, **more})))


@dataclass(frozen=True, eq=False)
class _Merged:
    rows: Float32s
    y: NDArray[np.int64]
    keys: list[str]
    sizes: dict[int, int]  # how many rows more or less there are with each label
    n_new: int


def _merge(model: TableModel, new: Judged, codes: NDArray[np.int64]) -> _Merged:
    """Put together the rows that a model remembers and new rows; of verdicts on the same row, the last one wins."""
    keys, remembered_rows = model.summary.verdict_keys, _remembered(model)
    rows, labels = remembered_rows.rows[: len(keys)], remembered_rows.y[: len(keys)]
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
