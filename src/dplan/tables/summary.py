"""What a model file says about the training of its model: checked once, when the file is loaded, then read by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

__all__ = ["Summary", "Trained"]


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
        How high held-out known anomalies rank; None if that was not estimated, and after an update.
    seconds : dict of str to float
        The duration of each stage of the training.
    label_values : dict or None
        The words of the label column for known anomalies and for normal rows; None if it has numbers.
    sampled : int or None
        The number of rows that the model was trained on, if they are a sample.
    reading : dict or None
        Encoding and text for missing values of the training table, unless they are the default.
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
    ValueError: the summary's 'rows' must be a number of rows, but it is 'many'
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

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """Return the summary that a file contains; raise a ValueError if it does not have the form of `to_json`."""
        found: dict[str, Any] = {}
        for name, (fits, form) in _FORMS.items():
            if name in values:
                value = values[name]
                if not fits(value):
                    raise ValueError(f"the summary's {name!r} must be {form}, but it is {value!r:.40}")
                found[name] = tuple(value) if name in _TUPLES else value
            elif name not in _OPTIONAL:
                raise ValueError(f"the summary has no {name!r}")
        return cls(**found)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _object_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


_texts = _list_of(_is_text)


def _is_reading(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("encoding")) and _texts(value.get("missing"))


# What each value must be, to check it and to say so.
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "rows": (_is_count, "a number of rows"),
    "labels": (lambda value: bool(value) and _object_of(_is_count)(value), "numbers of rows by class"),
    "checked_normal": (_is_count, "a number of rows"),
    "label": (_is_text, "the name of a column"),
    "ids": (_texts, "a list of columns"),
    "columns": (_object_of(_is_count), "numbers of columns by type"),
    "dropped": (_object_of(_is_text), "reasons by column"),
    "estimate": (lambda value: value is None or _object_of(_is_number)(value), "numbers by name, or null"),
    "seconds": (_object_of(_is_number), "seconds by stage"),
    "label_values": (lambda value: _object_of(_texts)(value) and "normal" in value, "lists of words"),
    "sampled": (_is_count, "a number of rows"),
    "reading": (_is_reading, "an encoding and a list of texts for missing values"),
    "verdict_keys": (_texts, "a list of texts"),
    "known_names": (_texts, "a list of texts"),
    "updates": (_list_of(lambda value: isinstance(value, dict)), "a list of objects"),
}
_OPTIONAL = ("label_values", "sampled", "reading", "updates")
_TUPLES = ("ids", "verdict_keys", "known_names", "updates")
