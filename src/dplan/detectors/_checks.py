"""Validation of parameters and labels. Every error says what was found and what to do."""

import numbers
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan.exceptions import ManyAnomaliesWarning

_MIN_ROWS_TO_WARN = 20
_WHAT_Y_MEANS = (
    "y must be 0 for unlabelled rows, k >= 1 for labelled anomalies of class k and -1 for checked normal rows"
)


def check_integer(name: str, value: Any, minimum: int) -> None:
    """Raise unless `value` is an integer >= `minimum`.

    Examples
    --------
    >>> check_integer("n_steps", 0, minimum=1)
    Traceback (most recent call last):
    ValueError: n_steps must be an integer >= 1, got 0.
    """
    if not _is_integer(value) or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}.")


def check_number(name: str, value: Any, interval: str) -> None:
    """Raise unless `value` lies in an interval, written as in mathematics.

    Examples
    --------
    >>> check_number("learning_rate", 0, "(0, inf)")
    Traceback (most recent call last):
    ValueError: learning_rate must be a number in (0, inf), got 0.
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    right_type = isinstance(value, numbers.Real) and not isinstance(value, bool)
    above = right_type and (value >= low if interval[0] == "[" else value > low)  # NaN is not
    below = right_type and (value <= high if interval[-1] == "]" else value < high)
    if not (above and below):
        raise ValueError(f"{name} must be a number in {interval}, got {value!r}.")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise unless `value` is one of the choices.

    Examples
    --------
    >>> check_choice("optimizer", "adam", ["rmsprop", "dqn"])
    Traceback (most recent call last):
    ValueError: optimizer must be one of 'rmsprop', 'dqn', got 'adam'.
    """
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless `value` is True or False.

    Examples
    --------
    >>> check_flag("intrinsic_reward", "yes")
    Traceback (most recent call last):
    ValueError: intrinsic_reward must be True or False, got 'yes'.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_n_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is None or a non-zero integer, as in scikit-learn.

    Examples
    --------
    >>> check_n_jobs(0)
    Traceback (most recent call last):
    ValueError: n_jobs must be None, a number of threads, or -1 for all cores, got 0.
    """
    if n_jobs is not None and (not _is_integer(n_jobs) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for all cores, got {n_jobs!r}.")


def check_hidden_units(hidden_units: Any) -> tuple[int, ...]:
    """Return the units of each hidden layer as a tuple.

    Examples
    --------
    >>> check_hidden_units(20), check_hidden_units([500, 100, 20])
    ((20,), (500, 100, 20))
    """
    layers = (hidden_units,) if isinstance(hidden_units, numbers.Integral) else hidden_units
    try:
        layers = tuple(layers)
    except TypeError:
        layers = ()
    if not layers:
        raise ValueError(
            f"hidden_units must be an integer or a tuple of integers, one per hidden layer, got {hidden_units!r}."
        )
    for units in layers:
        check_integer("each entry of hidden_units", units, minimum=1)
    return tuple(int(units) for units in layers)


def check_labels(y: Any, n_rows: int) -> NDArray[np.int64]:
    """Return y as integers, one per row; None means that no row is labelled.

    Examples
    --------
    >>> check_labels([0, 2, -1, 1], n_rows=4)
    array([ 0,  2, -1,  1])
    >>> check_labels([0, -2, 0], n_rows=3)
    Traceback (most recent call last):
    ValueError: y must be 0 for unlabelled rows, k >= 1 for labelled anomalies of class k and -1 for checked normal
    rows, but row 1 is -2 (1 invalid row in total). Convert other labels first, for example with
    y = (labels == "fraud").astype(int).
    """
    if y is None:
        return np.zeros(n_rows, dtype=np.int64)
    from sklearn.utils.validation import column_or_1d

    values = column_or_1d(np.asarray(y))
    if len(values) != n_rows:
        raise ValueError(f"X and y must have the same length: X has {n_rows} rows and y has {len(values)}.")
    if values.dtype == object or values.dtype.kind in "mM":
        values = _numbers_or_text(values)
    if values.dtype.kind in "biu":
        wrong = values < -1 if values.dtype.kind == "i" else np.zeros(n_rows, dtype=bool)
    elif values.dtype.kind == "f":
        wrong = ~((values >= -1) & (values == np.floor(values)) & (values < 2**53))
    else:
        wrong = np.ones(n_rows, dtype=bool)
    if wrong.any():
        first = int(np.argmax(wrong))
        count = int(wrong.sum())
        raise ValueError(
            f"{_WHAT_Y_MEANS}, but row {first} is {values[first].item()!r} "
            f"({count} invalid row{'s' if count > 1 else ''} in total). Convert other labels first, for example with "
            'y = (labels == "fraud").astype(int).'
        )
    labels: NDArray[np.int64] = values.astype(np.int64)
    return labels


def warn_of_many_anomalies(labels: NDArray[np.int64], what: str, advice: str, stacklevel: int) -> None:
    """Warn if more than half of the rows, but not all, are labelled as anomalies, and name the likely cause.

    Examples
    --------
    >>> import pytest
    >>> with pytest.warns(ManyAnomaliesWarning, match="in scikit-learn, 1 means normal"):
    ...     warn_of_many_anomalies(np.repeat([1, -1], [30, 5]), "y", "Convert it", 2)
    """
    n, n_rows = int((labels > 0).sum()), len(labels)
    if not n_rows / 2 < n < n_rows or n_rows < _MIN_ROWS_TO_WARN:
        return
    cause = "anomalies are expected to be rare. Check which values mark them"
    if set(np.unique(labels).tolist()) == {-1, 1}:
        cause = (
            "it has -1 and 1 but no 0, and in scikit-learn, 1 means normal. Here, 1 is a known anomaly, -1 a row that "
            f"was checked and is normal, and 0 an unlabelled row. {advice}"
        )
    warnings.warn(
        f"{what} labels {n:,} of {n_rows:,} rows as anomalies, and {cause}.",
        ManyAnomaliesWarning,
        stacklevel=stacklevel + 1,
    )


def check_confidence(sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Return the confidence in each row's verdict; None means that all are the same.

    Examples
    --------
    >>> check_confidence([1, 0.5, 1], n_rows=3)
    array([1. , 0.5, 1. ])
    >>> check_confidence([1, -1, 1], n_rows=3)
    Traceback (most recent call last):
    ValueError: sample_weight must be finite and >= 0, but row 1 is -1.0.
    """
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "biufO":
        raise ValueError(f"sample_weight must be numbers, got an array of {weights.dtype}.")
    try:
        weights = weights.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}.") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one weight per row: X has {n_rows} rows and sample_weight has shape "
            f"{weights.shape}."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"sample_weight must be finite and >= 0, but row {row} is {weights[row]}.")
    if not weights.any():
        raise ValueError("sample_weight must have a weight above 0, but all weights are zero.")
    return weights


@contextmanager
def advise_on_tables(X: Any) -> Iterator[None]:
    """Add advice to the error if X is rejected because of text columns or missing values.

    Examples
    --------
    >>> with advise_on_tables([["de", 1.0]]):
    ...     np.asarray([["de", 1.0]], dtype=float)
    Traceback (most recent call last):
    ValueError: could not convert string to float: 'de'. X contains text, but detectors only accept numbers. Use
    dplan.TableDetector for tables with text, dates and missing values, or convert the columns with
    dplan.tables.TablePreparer.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        values = np.asarray(X)
        if values.dtype.kind in "US" or (
            values.dtype == object and any(isinstance(v, str) for v in values.flat)
        ):
            raise ValueError(
                f"{str(error).rstrip('.')}. X contains text, but detectors only accept numbers. Use "
                "dplan.TableDetector for tables with text, dates and missing values, or convert the columns with "
                "dplan.tables.TablePreparer."
            ) from error
        if "contains NaN" in str(error):  # scikit-learn goes on to recommend estimators of its own
            raise ValueError(
                "Input X contains NaN: detectors do not accept missing values. Use dplan.TableDetector, which does, or "
                "fill them first, for example with sklearn.impute.SimpleImputer."
            ) from error
        raise


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _numbers_or_text(values: NDArray[Any]) -> NDArray[Any]:
    if all(isinstance(value, numbers.Real) for value in values):
        return values.astype(np.float64)
    return values.astype(str)


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a new generator for scikit-learn's `random_state`; no global state is read or written.

    Examples
    --------
    >>> as_generator(0).random() == as_generator(0).random()
    True
    """
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        "random_state must be None, a non-negative integer, or a NumPy RandomState or Generator, "
        f"got {random_state!r}."
    )


def check_not_diverged(scores: NDArray[np.floating], name: str) -> None:
    """Raise if the scores of a detector that was just fitted are not finite."""
    if not np.isfinite(scores).all():
        raise ValueError(
            f"the weights of {name} diverged during training. Use scale=True or a lower learning rate."
        )
