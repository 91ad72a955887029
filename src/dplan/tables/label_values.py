"""What the values of a label column mean: known anomalies, checked normal rows, unlabelled rows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError
from dplan.text import shown

__all__ = [
    "LabelValues",
    "as_text",
    "as_texts",
    "described",
    "has_verdict",
    "listed",
    "read_labels",
    "verdicts_of",
]

_SHOWN = 10  # values listed in a message


@dataclass(frozen=True)
class LabelValues:
    """The values that were given for each meaning, None if there were none, and what was found.

    Attributes
    ----------
    anomaly, normal, unlabelled : tuple of str or None
        Values of known anomalies, of checked normal rows and of unlabelled rows.
    found : mapping
        Given value → spelling in the table → number of rows.
    """

    anomaly: tuple[str, ...] | None = None
    normal: tuple[str, ...] | None = None
    unlabelled: tuple[str, ...] | None = None
    found: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        anomaly: Sequence[object] | None,
        normal: Sequence[object] | None,
        unlabelled: Sequence[object] | None,
    ) -> LabelValues | None:
        """Return given values as texts, or None if none were given."""
        if anomaly is None and normal is None and unlabelled is None:
            return None
        return cls(_texts(anomaly), _texts(normal), _texts(unlabelled))

    def every(self) -> list[str]:
        """Return all given values."""
        return [*(self.anomaly or ()), *(self.normal or ()), *(self.unlabelled or ())]

    def key(self) -> Callable[[str], str]:
        """Return what values are compared by: without case, unless that would make two given values the same."""
        given = set(self.every())
        exact = len({value.casefold() for value in given}) < len(given)
        return str if exact else str.casefold

    def matches(self) -> str:
        """Return a sentence about how many rows each value matched.

        Examples
        --------
        >>> LabelValues(anomaly=("fraud",), found={"fraud": {"fraud": 30, "Fraud": 6}}).matches()
        "'fraud' matched 36 rows ('fraud' 30, 'Fraud' 6)"
        """
        parts = []
        for value, spellings in self.found.items():
            n = sum(spellings.values())
            part = f"{shown(value)} matched {n:,} row{'' if n == 1 else 's'}"
            if [*spellings] not in ([value], []):
                part += f" ({', '.join(f'{shown(name)} {count:,}' for name, count in spellings.items())})"
            parts.append(part)
        return "; ".join(parts)


def _texts(values: Sequence[object] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(dict.fromkeys(map(as_text, values)))


def described(labels: Mapping[str, int], n_checked: int) -> str:
    """Return the number of rows per class, in words; `labels` has the unlabelled rows first.

    Examples
    --------
    >>> described({"unlabelled": 5254, "fraud": 36}, 210)
    '36 fraud, 210 checked normal, 5,254 unlabelled'
    """
    (unlabelled, n_unlabelled), *classes = labels.items()
    parts = [*classes, *([("checked normal", n_checked)] if n_checked else []), (unlabelled, n_unlabelled)]
    return ", ".join(f"{n:,} {name}" for name, n in parts)


def read_labels(
    labels: pl.Series, values: LabelValues | None, *, partial: bool = False
) -> tuple[NDArray[np.int64], tuple[str, ...], LabelValues | None]:
    """Return y, the names of its classes from 0 on, and the values with what was found.

    Examples
    --------
    >>> column = pl.Series("checked", ["fraud", "Fraud ", "ok", None])
    >>> y, classes, values = read_labels(column, LabelValues(("fraud",), ("OK",)))
    >>> y.tolist(), classes
    ([1, 1, -1, 0], ('unlabelled', 'fraud'))
    >>> values.matches()
    "'fraud' matched 2 rows ('fraud' 1, 'Fraud' 1); 'OK' matched 1 row ('ok' 1)"
    """
    if values is None:
        y, classes = _numbered(labels)
        return _checked(labels, y, partial), classes, None
    texts, key = as_texts(labels), values.key()
    spellings: dict[str, dict[str, int]] = {}
    for text, n in texts.drop_nulls().value_counts(sort=True).rows():
        spellings.setdefault(key(text), {})[text] = n
    _check_given(labels.name, values, spellings, partial)
    meanings = {key(value): 0 for value in values.unlabelled or ()}
    meanings |= {key(value): -1 for value in values.normal or ()}
    known = list(values.anomaly or ())
    if values.anomaly is None:
        known = sorted(next(iter(own)) for value, own in spellings.items() if value not in meanings)
    meanings |= {key(value): k for k, value in enumerate(known, start=1)}
    rest = [next(iter(own)) for value, own in spellings.items() if value not in meanings]
    if rest and values.unlabelled is not None:
        raise ValueError(
            f"label column {labels.name!r} also contains {listed(rest)}; "
            "add each of them to the anomaly, the normal or the unlabelled values"
        )
    codes = {text: meanings[value] for value, own in spellings.items() if value in meanings for text in own}
    y = texts.replace_strict(codes, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()
    every = dict.fromkeys([*values.every(), *known])
    found = replace(values, found={value: spellings.get(key(value), {}) for value in every})
    return _checked(labels, y, partial), ("unlabelled", *known), found


def verdicts_of(labels: pl.Series, values: LabelValues | None) -> NDArray[np.int64]:
    """Return 1, -1 or 0 for rows that `read_labels` may call anomalous, normal or unlabelled if it sees all rows.

    Examples
    --------
    >>> verdicts_of(pl.Series(["fraud", "OK", "open", None]), LabelValues(("fraud",), ("ok",))).tolist()
    [1, -1, 0, 0]
    >>> verdicts_of(pl.Series(["2", "-1", "0", "false", ""]), None).tolist()
    [1, -1, 0, 0, 0]
    """
    texts = as_texts(labels)
    if values is None:
        texts = texts.str.to_lowercase().str.replace(r"^(-?\d+)\.0+$", "$1")
        values = LabelValues(normal=("-1",), unlabelled=("0", "false"))
    key, every = values.key(), ((0, values.unlabelled), (-1, values.normal), (1, values.anomaly))
    meanings = {key(value): code for code, given in every for value in given or ()}
    other = 1 if values.anomaly is None else 0
    codes = {text: meanings.get(key(text), other) for text in texts.drop_nulls().unique().to_list()}
    return texts.replace_strict(codes, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()


def has_verdict(labels: pl.Series, summary: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which rows have a verdict, by the values that had one in the training of a model with this summary.

    Examples
    --------
    >>> summary = {"labels": {"unlabelled": 9, "fraud": 1}, "label_values": {"anomaly": ["fraud"], "normal": ["ok"]}}
    >>> has_verdict(pl.Series(["Fraud", "ok", "open", "", None]), summary).tolist()
    [True, True, False, False, False]
    >>> has_verdict(pl.Series([2.0, -1.0, 0.0, None]), {"labels": {"unlabelled": 9, "1": 1}}).tolist()
    [True, True, False, False]
    """
    classes = tuple(summary.get("labels", {}))[1:]
    values = None
    if "label_values" in summary or not all(name.isdigit() for name in classes):
        values = LabelValues(classes, tuple(summary.get("label_values", {}).get("normal", ())))
    return verdicts_of(labels, values).astype(np.bool_)


def _check_given(
    column: str, values: LabelValues, spellings: Mapping[str, Mapping[str, int]], partial: bool
) -> None:
    key, meanings = values.key(), dict[str, str]()
    for name in ("anomaly", "normal", "unlabelled"):
        for value in getattr(values, name) or ():
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


def _numbered(labels: pl.Series) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read a label column of -1, 0 and class numbers, or of false and true."""
    if labels.dtype == pl.Boolean or labels.dtype == pl.Null:
        labels = labels.cast(pl.Int64)
    if labels.dtype == pl.String:
        lower = labels.str.strip_chars().str.to_lowercase().replace({"false": "0", "true": "1"})
        parsed = lower.cast(pl.Float64, strict=False)
        labels = parsed if parsed.null_count() == labels.null_count() else labels
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
    return y


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
        parts = [f"{shown(value)} ({n:,} rows)" for value, n in list(values.items())[:_SHOWN]]
    else:
        parts = [shown(value) for value in list(values)[:_SHOWN]]
    more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    return ", ".join(parts) + more if parts else "only missing values"
