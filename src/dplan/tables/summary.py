"""What a model file says about the training of its model: checked once, when the file is loaded, then read by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from dplan.persistence.schema import (
    Fields,
    is_count,
    is_number,
    is_text,
    is_texts,
    list_of,
    object_of,
    problem,
)
from dplan.tables.layout import is_layout

__all__ = ["Reader", "Summary", "Trained"]

_VAGUE = 0.8  # an interval with this share of the budget says too little


@dataclass(frozen=True)
class Summary:
    """How a model was trained; the order of the attributes is that of the file.

    Attributes
    ----------
    rows : int
        Rows of the training table and of the tables that the model was updated with.
    labels : dict of str to int
        How many of them are in each class, the unlabelled ones first.
    checked_normal : int
        How many were checked and are normal.
    label : str
        The label column.
    ids : tuple of str
        The columns that identify a row.
    columns : dict of str to int
        How many columns there are of each type.
    dropped : dict of str to str
        The columns that were left out, with the reasons.
    estimate : dict or None
        How many alerts will be right, and how high held-out known anomalies rank, as in `dplan.tables.Estimate`; None
        if that was not estimated, and after an update.
    seconds : dict of str to float
        The duration of each stage of the training. It is not stored: the same training gives the same file.
    label_values : dict or None
        The words of the label column for known anomalies and for normal rows; None if it has numbers.
    sampled : int or None
        The number of rows that the model was trained on, if they are a sample.
    reading : dict or None
        Encoding, text for missing values, layout and sheet of the training table, unless they are the default.
    verdict_keys : tuple of str
        What identifies the rows with verdicts that the model keeps; see `dplan.tables.row_keys`.
    known_names : tuple of str
        What to call the known anomalies among them.
    updates : tuple of dict
        What each later update learned from.

    Examples
    --------
    >>> summary = Summary(rows=9, labels={"unlabelled": 8, "fraud": 1}, label="verdict")
    >>> summary.classes
    ['fraud']
    >>> Summary.from_json(summary.to_json()) == summary
    True
    >>> Summary.from_json({**summary.to_json(), "rows": "many"})
    Traceback (most recent call last):
    ValueError: the summary cannot be used: 'rows' must be a number of rows, but it is 'many'
    """

    rows: int = 0
    labels: Mapping[str, int] = field(default_factory=lambda: {"unlabelled": 0})
    checked_normal: int = 0
    label: str = ""
    ids: tuple[str, ...] = ()
    columns: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    estimate: Mapping[str, Any] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    label_values: Mapping[str, list[str]] | None = None
    sampled: int | None = None
    reading: Mapping[str, Any] | None = None
    verdict_keys: tuple[str, ...] = ()
    known_names: tuple[str, ...] = ()
    updates: tuple[Mapping[str, Any], ...] = ()

    @property
    def classes(self) -> list[str]:
        """The names of the classes of anomalies."""
        return list(self.labels)[1:]

    @property
    def normal_words(self) -> list[str]:
        """The words of the label column for rows that were checked and are normal."""
        return [] if self.label_values is None else self.label_values["normal"]

    @property
    def has_numbers(self) -> bool:
        """Whether the label column has numbers, not words."""
        return self.label_values is None and all(map(str.isdigit, self.classes))

    def expectations(self) -> list[str]:
        """Return the estimate as sentences: how many alerts will be right, how high known anomalies rank, precision."""
        found, sentences = self.estimate or {}, []
        if "low" in found:  # older files have no interval
            low, high, budget = found["low"], found["high"], found["budget"]
            among = f"of the {budget:,} highest scores of {found['rows']:,} new rows like these"
            perfect = f"a perfect detector would find {round(found['perfect']):,}"
            if high - low >= _VAGUE * budget:
                sentences.append(
                    f"{found['known']:,} known anomalies tell too little: {low:,} to {high:,} {among} are anomalies "
                    f"(90 % interval; {perfect})."
                )
            else:
                number = f"{low:,} to {high:,}" if high > low else f"{low:,}"
                sentences.append(
                    f"As far as the labels tell, expect {number} {among} to be anomalies (90 % interval; {perfect})."
                )
        if found:
            sentences.append(
                f"Known anomalies that were held out: {found['known']:,}; half of them rank above "
                f"{found['median_percentile']:.1f} % of the unlabelled rows."
            )
        if found.get("checked"):
            n_alerts = found["alerts_found"] + found["false_alarms"]
            precision = (
                f"{100 * found['alerts_found'] / n_alerts:.0f} %" if n_alerts else "unknown: no alerts"
            )
            sentences.append(
                f"Precision on held-out rows with a verdict: {precision} ({found['alerts_found']:,} of "
                f"{found['known']:,} anomalies and {found['false_alarms']:,} of {found['checked']:,} normal rows are "
                "alerts)."
            )
        return sentences

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """Return the summary that a file contains; raise a ValueError if it does not have the form of `to_json`."""
        if wrong := problem(values, _FORMS, _OPTIONAL):
            raise ValueError(f"the summary cannot be used: {wrong}")
        found: dict[str, Any] = {
            name: tuple(value) if name in _TUPLES else value for name, value in values.items()
        }
        return cls(**found)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        del values["seconds"]
        values |= {name: list(values[name]) for name in _TUPLES}
        return {name: value for name, value in values.items() if value or name not in _OPTIONAL}

    def check(self, known_classes: list[int], n_checked: int) -> None:
        """Raise a ValueError if the rows with verdicts that a model keeps are others than the summary describes."""
        if len(self.verdict_keys) != len(known_classes) + n_checked:
            raise ValueError("the verdict keys in the summary do not match the known rows")
        if len(self.known_names) != len(known_classes):
            raise ValueError("the names in the summary do not match the known rows")
        if max(known_classes, default=0) >= len(self.labels):
            raise ValueError("a known row has a class that is not in the summary")


class Trained(Protocol):
    """A model, as far as reading tables and labels for it is concerned."""

    @property
    def summary(self) -> Summary:
        """How the model was trained."""

    @property
    def typed_numbers(self) -> tuple[str, ...]:
        """The columns that had the type of numbers in training, so that nothing is known about their text."""


class Reader(Protocol):
    """A model, as far as it reads tables as in its training."""

    def read(self, table: Any) -> Any:
        """Read a table; return a polars frame."""


def _is_reading(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and is_text(value.get("encoding"))
        and is_texts(value.get("missing"))
        and ("layout" not in value or is_layout(value["layout"]))
        and ("sheet" not in value or is_text(value["sheet"]))
    )


# What each value must be, to check it and to say so.
_FORMS: Fields = {
    "rows": (is_count, "a number of rows"),
    "labels": (lambda value: bool(value) and object_of(is_count)(value), "numbers of rows by class"),
    "checked_normal": (is_count, "a number of rows"),
    "label": (is_text, "the name of a column"),
    "ids": (is_texts, "a list of columns"),
    "columns": (object_of(is_count), "numbers of columns by type"),
    "dropped": (object_of(is_text), "reasons by column"),
    "estimate": (lambda value: value is None or object_of(is_number)(value), "numbers by name, or null"),
    "seconds": (object_of(is_number), "seconds by stage"),
    "label_values": (lambda value: object_of(is_texts)(value) and "normal" in value, "lists of words"),
    "sampled": (is_count, "a number of rows"),
    "reading": (_is_reading, "an encoding, a list of texts for missing values and a layout"),
    "verdict_keys": (is_texts, "a list of texts"),
    "known_names": (is_texts, "a list of texts"),
    "updates": (list_of(lambda value: isinstance(value, dict)), "a list of objects"),
}
_OPTIONAL = ("seconds", "label_values", "sampled", "reading", "updates")
_TUPLES = ("ids", "verdict_keys", "known_names", "updates")
