"""The words of a label column by their meaning: given with a command, trained with, or built in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.flags import is_flag, is_yes
from dplan.tables.summary import Summary, Trained
from dplan.text import shown

__all__ = [
    "NUMBERS",
    "Words",
    "answers",
    "as_text",
    "as_texts",
    "class_names",
    "described",
    "general_class",
    "has_verdict",
    "is_reserved",
    "listed",
    "means_checked",
    "place",
    "says_nothing",
    "words_of",
]

_SHOWN = 10  # values listed in a message
_ONLY = ["1"]  # the class of labels that are 0 and 1, or yes and no

_BUILT_IN = {
    **dict.fromkeys(("anomaly", "1", "true"), "anomaly"),
    **dict.fromkeys(("normal", "-1"), "normal"),
    **dict.fromkeys(("unlabelled", "0", "false"), "unlabelled"),
    **dict.fromkeys(("unsure", "unknown", "?"), "unsure"),
}
# What people write beside a row that they were asked about, where 0 and false are answers.
_ANSWERS = {
    **_BUILT_IN,
    **dict.fromkeys(("yes", "y", "ja", "oui"), "anomaly"),
    **dict.fromkeys(("ok", "okay", "no", "n", "0", "false", "false alarm", "nein", "non"), "normal"),
}
_CHECKED = ("normal", "ok", "okay", "false alarm")  # nobody writes them beside a row that was not checked
_CODES = {"normal": -1, "unlabelled": 0, "unsure": 0}


def answers(classes: Sequence[str], normal: Sequence[str] = ()) -> list[str]:
    """Return what to offer a person who is asked about a row: the classes, her own word for normal, and "unsure".

    The only class of labels that are 0 and 1, or yes and no, is "anomaly".

    Examples
    --------
    >>> answers(["fraud", "typing error"], ["ok", "fine"]), answers([])
    (['fraud', 'typing error', 'ok', 'unsure'], ['anomaly', 'normal', 'unsure'])
    """
    named = ["anomaly"] if list(classes) in ([], _ONLY) else classes
    return [*named, *(normal or ["normal"])[:1], "unsure"]


@dataclass(frozen=True)
class Words:
    """The words of a label column by their meaning; None if none were given.

    Attributes
    ----------
    anomaly : tuple of str or None
        Words of known anomalies, one class each.
    normal : tuple of str or None
        Words of rows that were checked and are normal.
    unlabelled : tuple of str or None
        Words of rows without a verdict.
    built_in : mapping
        Further words, each "anomaly" (of no particular class), "normal", "unlabelled" or "unsure"; if there are any, a
        word that nobody knows is refused.
    numbered : bool
        Whether positive numbers are classes, and yes and no, in several languages, mean 1 and 0.
    """

    anomaly: tuple[str, ...] | None = None
    normal: tuple[str, ...] | None = None
    unlabelled: tuple[str, ...] | None = None
    built_in: Mapping[str, str] = field(default_factory=dict)
    numbered: bool = False

    @classmethod
    def of(
        cls,
        anomaly: Sequence[object] | None,
        normal: Sequence[object] | None,
        unlabelled: Sequence[object] | None,
    ) -> Words | None:
        """Return given values as words, or None if none were given."""
        if anomaly is None and normal is None and unlabelled is None:
            return None
        return cls(_texts(anomaly), _texts(normal), _texts(unlabelled))

    def every(self) -> list[str]:
        """Return the words that were given or trained with."""
        return [*(self.anomaly or ()), *(self.normal or ()), *(self.unlabelled or ())]

    @property
    def are_answers(self) -> bool:
        """Whether they are answers of a person who was asked about rows, so that 0 means normal."""
        return self.built_in is _ANSWERS

    @cached_property
    def key(self) -> Callable[[str], str]:
        """What words are compared by: without case, unless that would make two of them the same."""
        words = set(self.every())
        exact = len({word.casefold() for word in words}) < len(words)
        return str if exact else str.casefold

    @cached_property
    def codes(self) -> dict[str, int]:
        """The label of each word that was given or trained with."""
        found = {self.key(word): 0 for word in self.unlabelled or ()}
        found |= {self.key(word): -1 for word in self.normal or ()}
        return found | {self.key(word): k for k, word in enumerate(self.anomaly or (), start=1)}

    def code(self, text: str, classes: list[str]) -> int | None:
        """Return the label of a text, None if nobody knows it; a class that has no name yet is added to the classes."""
        own = self.codes.get(self.key(text))
        if own is not None:
            return own
        number = re.sub(r"^(-?\d+)\.0+$", r"\1", text)
        if self.numbered and number.isdecimal() and int(number) > 0:
            return place(number, classes)
        meaning = self.built_in.get(number.casefold())
        if meaning is None and self.numbered and is_flag(text):
            meaning = "anomaly" if is_yes(text) else "normal" if self.are_answers else "unlabelled"
        if meaning == "anomaly":
            return place(general_class(self.anomaly or ()), classes)
        return None if meaning is None else _CODES[meaning]

    def marks(self, labels: pl.Series, unknown: int = 0) -> NDArray[np.int64]:
        """Return 1, -1 or 0 for rows that are anomalous, normal or without a verdict.

        Examples
        --------
        >>> Words(("fraud",), ("ok",)).marks(pl.Series(["fraud", "OK", "open", None])).tolist()
        [1, -1, 0, 0]
        """
        texts, classes = as_texts(labels), ["unlabelled", *(self.anomaly or ())]
        codes = {}
        for text in texts.drop_nulls().unique().to_list():
            found = self.code(text, classes)
            codes[text] = unknown if found is None else min(found, 1)
        return texts.replace_strict(codes, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()


def means_checked(text: str) -> bool:
    """Return whether a word, in a column that leaves other rows empty, says that somebody has checked a row.

    Examples
    --------
    >>> means_checked("OK"), means_checked("0")
    (True, False)
    """
    return text.casefold() in _CHECKED


def place(name: str, classes: list[str]) -> int:
    """Return the number of a class, which is added if there is none of this name."""
    if name not in classes:
        classes.append(name)
    return classes.index(name)


def general_class(names: Sequence[str]) -> str:
    """Return the class of an anomaly of no particular class: the only one or, if there are several, a class of its own.

    Examples
    --------
    >>> general_class(["fraud"]), general_class(["dos", "probe"])
    ('fraud', 'anomaly')
    """
    return names[0] if len(names) == 1 else "anomaly"


# Words of a column in which 0 is unlabelled, -1 checked and normal, and 1, 2, … are classes.
NUMBERS = Words(built_in=_BUILT_IN, numbered=True)


def class_names(model: Trained | None) -> list[str]:
    """Return the names of a model's classes of anomalies."""
    return [] if model is None else model.summary.classes


def words_of(model: Trained | None, given: Words | None = None, *, answers: bool = False) -> Words:
    """Return what words mean for a model: as given, as in its training, or as built in.

    Parameters
    ----------
    model : TableModel or None
        The model.
    given : Words, optional
        Words that were given for this table.
    answers : bool, default=False
        Whether the words are answers of a person who was asked about rows, as in a review queue: then 0 and "no" mean
        normal, and "yes" an anomaly.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> trained = Summary(labels={"unlabelled": 9, "fraud": 1}, label_values={"normal": ["ok"]})
    >>> model = SimpleNamespace(summary=trained)
    >>> words_of(model, Words(normal=("fine",))).marks(
    ...     pl.Series(["Fraud", "anomaly", "ok", "fine", "normal", "unsure", "open"]), unknown=9
    ... ).tolist()
    [1, 1, -1, -1, -1, 0, 9]
    """
    given = given or Words()
    summary = Summary() if model is None else model.summary
    classes = summary.classes
    spelled = {name.casefold(): name for name in classes}
    anomaly = [spelled.get(word.casefold(), word) for word in given.anomaly or ()]
    others = {word.casefold() for word in (*(given.normal or ()), *(given.unlabelled or ()))}
    taken = others | {word.casefold() for word in anomaly}
    return Words(
        tuple(dict.fromkeys([*(name for name in classes if name.casefold() not in others), *anomaly])),
        (*(given.normal or ()), *(word for word in summary.normal_words if word.casefold() not in taken)),
        given.unlabelled or (),
        _ANSWERS if answers else _BUILT_IN,
        numbered=summary.has_numbers,
    )


def _texts(values: Sequence[object] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(dict.fromkeys(map(as_text, values)))


def has_verdict(labels: pl.Series, model: Trained) -> NDArray[np.bool_]:
    """Return which rows have a verdict, anomalous or normal; as in training, words that nobody knows are none.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> trained = Summary(labels={"unlabelled": 9, "fraud": 1}, label_values={"normal": ["ok"]})
    >>> model = SimpleNamespace(summary=trained)
    >>> has_verdict(pl.Series(["Fraud", "ok", "normal", "open", "", None]), model).tolist()
    [True, True, True, False, False, False]
    """
    return words_of(model).marks(labels).astype(np.bool_)


def says_nothing(text: str) -> bool:
    """Return whether a label is one of the words for unlabelled rows, such as 0 and false, or empty."""
    return not text or _BUILT_IN.get(text.casefold()) == "unlabelled"


def is_reserved(text: str) -> bool:
    """Return whether a label has a meaning of its own, such as normal, yes and 1, so that it cannot name a class.

    Examples
    --------
    >>> is_reserved("Normal"), is_reserved("7"), is_reserved("fraud")
    (True, True, False)
    """
    return text.casefold() in _ANSWERS or re.fullmatch(r"[-+]?[\d.,]+", text) is not None


def described(labels: Mapping[str, int], n_checked: int) -> str:
    """Return the number of rows per class, in words; `labels` has the unlabelled rows first.

    Examples
    --------
    >>> described({"unlabelled": 5254, "fraud": 36}, 210)
    '36 fraud, 210 checked normal, 5,254 unlabelled'
    >>> described({"unlabelled": 9, "1": 1}, 0), described({"unlabelled": 9, "1": 3, "2": 5}, 0)
    ('1 anomaly, 9 unlabelled', '3 of class 1, 5 of class 2, 9 unlabelled')
    """
    (unlabelled, n_unlabelled), *classes = labels.items()
    if [name for name, _ in classes] == _ONLY:
        parts = [f"{n:,} {'anomaly' if n == 1 else 'anomalies'}" for _, n in classes]
    else:
        parts = [f"{n:,} {f'of class {name}' if name.isdecimal() else name}" for name, n in classes]
    parts += [f"{n_checked:,} checked normal"] if n_checked else []
    return ", ".join([*parts, f"{n_unlabelled:,} {unlabelled}"])


def as_texts(labels: pl.Series) -> pl.Series:
    """Convert labels to strings, integers without a decimal point, blank ones to missing values."""
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
        whole = labels.drop_nulls()
        if (whole == whole.floor()).all() and whole.is_finite().all() and (whole.abs() < 2**53).all():
            labels = labels.cast(pl.Int64)
    return labels.cast(pl.String).str.strip_chars().replace("", None)


def as_text(value: Any) -> str:
    """Convert a value as `as_texts` does, so that 1, 1.0 and "1" are the same.

    Examples
    --------
    >>> as_text(1.0), as_text(True), as_text(" Fraud ")
    ('1', 'true', 'Fraud')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def listed(values: Collection[str] | Mapping[str, int]) -> str:
    """Return the first of some values, with their numbers of rows if these are known."""
    if isinstance(values, Mapping):
        parts = [f"{shown(value)} ({n:,} row{'s' * (n != 1)})" for value, n in list(values.items())[:_SHOWN]]
    else:
        parts = [shown(value) for value in list(values)[:_SHOWN]]
    more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    return ", ".join(parts) + more if parts else "only missing values"
