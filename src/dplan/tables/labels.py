"""Labels: known anomalies, checked normal rows and unlabelled rows, read from the words of a column.

Every command reads labels here, so a word means the same in all of them: what was given with the command comes before
what the model was trained with, and that before what is built in. Only in training, where nothing is known yet, may all
other words mean unlabelled rows; later, a word that nobody knows is refused.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.columns.column import TEXTS
from dplan.columns.flags import is_flag, read_flags
from dplan.detectors._checks import warn_of_many_anomalies
from dplan.exceptions import CellError
from dplan.tables.words import Words, as_texts, listed, means_checked, place
from dplan.text import shown

__all__ = ["JOINED", "Judged", "LabelReader", "Labels", "numbered", "read", "without_words"]


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of rows.

    Attributes
    ----------
    y : ndarray of int
        0 for a row without a verdict, k for an anomaly of class k, -1 for a row that was checked and is normal.
    classes : tuple of str
        ``classes[0]`` is ``"unlabelled"``, ``classes[k]`` the name of class k.
    spellings : mapping
        Word → spelling in the table → number of rows; empty for a column of numbers.
    """

    y: NDArray[np.int64]
    classes: tuple[str, ...]
    spellings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def matches(self) -> str:
        """Return a sentence about how many rows each word matched.

        Examples
        --------
        >>> Labels(np.ones(36), ("unlabelled", "fraud"), {"fraud": {"fraud": 30, "Fraud": 6}}).matches()
        "'fraud' matched 36 rows ('fraud' 30, 'Fraud' 6)"
        """
        parts = []
        for word, spellings in self.spellings.items():
            n = sum(spellings.values())
            part = f"{shown(word)} matched {n:,} row{'' if n == 1 else 's'}"
            if [*spellings] not in ([word], []):
                part += f" ({', '.join(f'{shown(name)} {count:,}' for name, count in spellings.items())})"
            parts.append(part)
        return "; ".join(parts)


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows with verdicts, prepared for a model: what the queue, the log and ``dplan update`` exchange.

    Attributes
    ----------
    rows : ndarray of float32
        Prepared features.
    y : ndarray of int
        0 for an unlabelled row, k for an anomaly of class k, -1 for a row that was checked and is normal.
    classes : tuple of str
        The names of the classes from 0 on; the first is "unlabelled".
    keys : list of str
        What identifies each row.
    identified : bool
        Whether rows with the same key are certainly the same, or only have the same values.
    names : list of str
        What to call each row, if known.
    bad : polars.DataFrame, optional
        Rows that were left out, because their cells cannot be used.

    Examples
    --------
    >>> judged = Judged(np.ones((2, 1), dtype=np.float32), np.array([1, -1]), ("unlabelled", "fraud"), ["a", "b"])
    >>> [judged.classes[k] if k > 0 else "normal" for k in judged.y]
    ['fraud', 'normal']
    """

    rows: Float32s
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    keys: list[str]
    identified: bool = True
    names: Sequence[str] = ()
    bad: pl.DataFrame | None = None


class LabelReader:
    """Reads a label column chunk by chunk.

    Parameters
    ----------
    column : str
        Name of the column, for messages.
    words : Words
        What its words mean.
    options : str
        The options that say what a word means, for messages.

    Attributes
    ----------
    classes : list of str
        The names of the classes so far, from 0 on.
    spellings : dict
        What words are compared by → spelling in the table → number of rows.
    new : dict
        Words that nobody knows → their class, if they are classes.

    Examples
    --------
    >>> from dplan.tables.words import words_of
    >>> reader = LabelReader("verdict", words_of(None))
    >>> [reader.read(pl.Series(texts)).tolist() for texts in (["normal", None], ["theft", "unsure"])]
    [[-1, 0], [1, 0]]
    >>> reader.classes
    ['unlabelled', 'theft']
    >>> reader.check()
    Traceback (most recent call last):
    dplan.exceptions.CellError: row 3, column 'verdict': unknown label 'theft' (1 row); known labels are 'anomaly',
    'normal'. Say what it means with --anomaly, --normal or --unlabelled
    """

    def __init__(
        self, column: str, words: Words, options: str = "--anomaly, --normal or --unlabelled"
    ) -> None:
        self.words, self.classes = words, ["unlabelled", *(words.anomaly or ())]
        self.spellings: dict[str, dict[str, int]] = {}
        self.new: dict[str, int] = {}
        self._column, self._options = column, options
        self._first = self._n_read = 0  # the first row with a word that nobody knows

    def read(self, labels: pl.Series) -> NDArray[np.int64]:
        """Return the label of each row; `check` tells whether words that nobody knows can be classes."""
        texts, before = as_texts(labels), len(self.new)
        codes = {text: self._code(text, n) for text, n in texts.drop_nulls().value_counts(sort=True).rows()}
        if len(self.new) > before == 0:
            unknown = [text for text in codes if self.words.key(text) in self.new]
            self._first = self._n_read + int(texts.is_in(unknown).arg_max() or 0)
        self._n_read += len(texts)
        return texts.replace_strict(codes, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()

    def _code(self, text: str, n: int) -> int:
        key = self.words.key(text)
        own = self.spellings.setdefault(key, {})
        own[text] = own.get(text, 0) + n
        found = self.words.code(text, self.classes)
        if found is not None:
            return found
        if self.words.anomaly is not None and self.words.unlabelled is None:
            return 0
        return self.new.setdefault(key, place(next(iter(own)), self.classes))

    def check(self) -> None:
        """Raise an error if there are words that nobody knows."""
        if not self.new or self.words.anomaly is None:
            return
        if not self.words.built_in:
            rest = listed([next(iter(self.spellings[key])) for key in self.new])
            raise ValueError(
                f"label column {self._column!r} also contains {rest}; "
                "add each of them to the anomaly, the normal or the unlabelled values"
            )
        unknown = {text: n for key in self.new for text, n in self.spellings[key].items()}
        known = [*self.words.every(), "anomaly", "normal"]
        many = len(unknown) > 1
        raise CellError(
            self._column,
            self._first,
            f"unknown label{'s' * many} {listed(unknown)}; known labels are {listed(list(dict.fromkeys(known)))}. "
            f"Say what {'they mean' if many else 'it means'} with {self._options}",
        )


def read(labels: pl.Series, words: Words | None, *, partial: bool = False) -> Labels:
    """Read a label column.

    Parameters
    ----------
    labels : polars.Series
        The column.
    words : Words or None
        What its words mean; None for numbers: 0, -1 and classes 1, 2, …
    partial : bool, default=False
        Whether the rows add to those of a model: any verdict is enough, and words may be given that do not occur.

    Examples
    --------
    >>> column = pl.Series("checked", ["fraud", "Fraud ", "ok", None])
    >>> found = read(column, Words(("fraud",), ("OK",)))
    >>> found.y.tolist(), found.classes
    ([1, 1, -1, 0], ('unlabelled', 'fraud'))
    >>> found.matches()
    "'fraud' matched 2 rows ('fraud' 1, 'Fraud' 1); 'OK' matched 1 row ('ok' 1)"
    """
    if words is None or (words.numbered and not words.are_answers and _are_numbers(labels)):
        y, classes = numbered(without_words(labels))
        return Labels(_checked(labels, y, partial), classes)
    reader = LabelReader(labels.name, words)
    y = reader.read(labels)
    _check_given(labels.name, words, reader.spellings, partial)
    reader.check()
    if not partial:
        _warn_of_checked_rows(labels, reader)
    # New classes in the order of their names, not of their numbers of rows.
    n_known = len(words.anomaly or ()) + 1
    order = [*range(n_known), *sorted(range(n_known, len(reader.classes)), key=reader.classes.__getitem__)]
    y = np.where(y < 0, y, np.argsort(order)[y])
    classes = tuple(reader.classes[k] for k in order)
    return Labels(_checked(labels, y, partial), classes, _by_word(reader, classes))


def _by_word(reader: LabelReader, classes: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return what was found for each word: all that were given or, with built-in ones, those that occur."""
    words, found = reader.words, reader.spellings
    every = dict.fromkeys([*words.every(), *classes[1:]])
    if not words.built_in:
        return {word: found.get(words.key(word), {}) for word in every}
    known = {word: found[words.key(word)] for word in every if words.key(word) in found}
    keys = set(map(words.key, known))
    return known | {key: own for key, own in found.items() if key not in keys}


def _check_given(
    column: str, words: Words, spellings: Mapping[str, Mapping[str, int]], partial: bool
) -> None:
    key, meanings = words.key, dict[str, str]()
    for name in ("anomaly", "normal", "unlabelled"):
        for value in getattr(words, name) or ():
            other = meanings.setdefault(key(value), name)
            if other != name:
                raise ValueError(f"{value!r} cannot be both among the {other} and the {name} values")
            if not partial and key(value) not in spellings:
                texts = {text: n for own in spellings.values() for text, n in own.items()}
                near = difflib.get_close_matches(
                    value.casefold(), {text.casefold(): text for text in texts}, n=1
                )
                close = [text for text in texts if near and text.casefold() == near[0]]
                hint = f"did you mean {close[0]!r}?" if close else f"its values are {listed(texts)}"
                raise ValueError(f"label column {column!r} has no {name} value {value!r}; {hint}")


def _warn_of_checked_rows(labels: pl.Series, reader: LabelReader) -> None:
    """Warn if some rows are called normal, others have no value, and both are taken as unlabelled."""
    found = {
        text: n for own in reader.spellings.values() for text, n in own.items()
        if means_checked(text) and reader.words.code(text, []) is None
    }  # fmt: skip
    if found and reader.words.anomaly is not None and as_texts(labels).null_count():
        options = " ".join(f"--normal {shown(text)}" for text in found)
        warnings.warn(
            f"label column {shown(labels.name)}: {listed(found)} is taken as unlabelled, like an empty cell. If these "
            f"rows were checked, say so ({options}, in Python normal={list(found)})",
            stacklevel=5,
        )


JOINED = " + "  # between the names of several label columns


def without_words(labels: pl.Series) -> pl.Series:
    """Return yes and no, in several languages, as 1 and 0; other labels as they are."""
    if labels.dtype not in TEXTS:
        return labels
    labels = labels.cast(pl.String)  # pandas and polars have categories
    texts = as_texts(labels)
    distinct = texts.drop_nulls().unique().to_list()
    return read_flags(texts).cast(pl.Int64) if distinct and all(map(is_flag, distinct)) else labels


def _are_numbers(labels: pl.Series) -> bool:
    labels = without_words(labels)
    return labels.dtype != pl.String or _parsed(labels) is not None


def _parsed(labels: pl.Series) -> pl.Series | None:
    """Return texts as numbers, false and true as 0 and 1, blank ones as missing; None if another one is no number."""
    texts = labels.str.strip_chars().str.to_lowercase().replace({"false": "0", "true": "1", "": None})
    numbers = texts.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == texts.null_count() else None


def numbered(labels: pl.Series) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read a label column of -1, 0 and class numbers, or of false and true."""
    if labels.dtype == pl.Boolean or labels.dtype == pl.Null:
        labels = labels.cast(pl.Int64)
    if labels.dtype == pl.String and (parsed := _parsed(labels)) is not None:
        labels = parsed
    if not labels.dtype.is_numeric():
        found = dict(as_texts(labels).drop_nulls().value_counts(sort=True).rows())
        raise ValueError(
            f"label column {labels.name!r} contains {listed(found)}; specify which values "
            "mark known anomalies (--anomaly VALUE, in Python anomaly=[…])"
        )
    numbers = labels.cast(pl.Float64).fill_nan(None).fill_null(0.0).to_numpy()
    wrong = np.flatnonzero((numbers < -1) | (numbers != np.floor(numbers)) | ~np.isfinite(numbers))
    if len(wrong):
        raise CellError(
            labels.name,
            int(wrong[0]),
            f"the label {labels[int(wrong[0])]} is neither 0 (unlabelled) nor a class number 1, 2, … nor -1 (checked "
            "normal); fix it, or specify which values mark known anomalies (--anomaly VALUE, in Python anomaly=[…])",
        )
    values, y = np.unique(np.concatenate([[0.0], np.maximum(numbers, 0)]), return_inverse=True)
    y = np.where(numbers < 0, -1, y[1:])
    return y, ("unlabelled", *(f"{value:.0f}" for value in values[1:]))


def _checked(labels: pl.Series, y: NDArray[np.int64], partial: bool) -> NDArray[np.int64]:
    if partial and not y.any():
        raise ValueError(
            f"label column {labels.name!r} contains no verdict: neither anomalies nor normal rows"
        )
    if not partial and not (y > 0).any():
        raise ValueError(
            f"label column {labels.name!r} contains no known anomalies; at least one is required "
            "(specify which values mark them: --anomaly VALUE, in Python anomaly=[…])"
        )
    if not partial and (y > 0).all():
        raise ValueError(
            f"label column {labels.name!r} marks every row as an anomaly; unlabelled rows are required"
        )
    if not partial:
        advice = "Say which value marks anomalies (--anomaly=-1, in Python anomaly=[-1])"
        warn_of_many_anomalies(y, f"label column {shown(labels.name)}", advice, stacklevel=5)
    return y
