"""Checks of what people pass in. Every error says what was found and what to do."""

import numbers
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from dplan.exceptions import NoLabelsWarning

_WHAT_Y_MEANS = "y must hold 0 for an unlabelled row and k >= 1 for a labelled anomaly of class k"


def check_integer(name: str, value: Any, minimum: int) -> None:
    """Raise unless `value` is a whole number of at least `minimum`.

    Examples
    --------
    >>> check_integer("n_steps", 0, minimum=1)
    Traceback (most recent call last):
    ValueError: n_steps must be a whole number of at least 1, got 0.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}.")


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
    >>> check_flag("scale", "yes")
    Traceback (most recent call last):
    ValueError: scale must be True or False, got 'yes'.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_n_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is None or a whole number other than 0, as in scikit-learn.

    Examples
    --------
    >>> check_n_jobs(0)
    Traceback (most recent call last):
    ValueError: n_jobs must be None, a number of threads, or -1 for all cores, got 0.
    """
    whole = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
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
            f"hidden_units must be a whole number or a tuple of them, one per hidden layer, got {hidden_units!r}."
        )
    for units in layers:
        check_integer("every entry of hidden_units", units, minimum=1)
    return tuple(int(units) for units in layers)


def check_labels(y: Any, n_rows: int) -> NDArray[np.int64]:
    """Return y as integers, one per row; no y at all means that no row is labelled.

    Examples
    --------
    >>> check_labels([0, 2, 0, 1], n_rows=4)
    array([0, 2, 0, 1])
    >>> check_labels([0, -1, 0], n_rows=3)
    Traceback (most recent call last):
    ValueError: y must hold 0 for an unlabelled row and k >= 1 for a labelled anomaly of class k, but row 1 holds -1
    (1 such row in all). Labels of another form can be mapped with, for example, y = (labels == "fraud").astype(int).
    """
    if y is None:
        return np.zeros(n_rows, dtype=np.int64)
    values = column_or_1d(np.asarray(y))
    if len(values) != n_rows:
        raise ValueError(f"y must hold one label per row: X has {n_rows} rows and y has {len(values)}.")
    if values.dtype == object or values.dtype.kind in "mM":
        values = _numbers_or_objects(values)
    if values.dtype.kind in "biu":
        wrong = values < 0 if values.dtype.kind == "i" else np.zeros(n_rows, dtype=bool)
    elif values.dtype.kind == "f":
        wrong = ~((values >= 0) & (values == np.floor(values)) & (values < 2**53))
    else:
        wrong = np.ones(n_rows, dtype=bool)
    if wrong.any():
        first = int(np.argmax(wrong))
        count = int(wrong.sum())
        raise ValueError(
            f"{_WHAT_Y_MEANS}, but row {first} holds {values[first].item()!r} "
            f"({count} such row{'s' if count > 1 else ''} in all). Labels of another form can be mapped with, "
            'for example, y = (labels == "fraud").astype(int).'
        )
    labels: NDArray[np.int64] = values.astype(np.int64)
    return labels


@contextmanager
def explain_texts(X: Any) -> Iterator[None]:
    """Say what to do with text columns, if checking a table fails because of them.

    Examples
    --------
    >>> with explain_texts([["de", 1.0]]):
    ...     np.asarray([["de", 1.0]], dtype=float)
    Traceback (most recent call last):
    ValueError: could not convert string to float: 'de'. X holds text, and a detector takes numbers only: use
    dplan.TableDetector for tables with text, dates and missing values, or prepare the columns with
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
                f"{str(error).rstrip('.')}. X holds text, and a detector takes numbers only: use dplan.TableDetector "
                "for tables with text, dates and missing values, or prepare the columns with "
                "dplan.tables.TablePreparer."
            ) from error
        raise


def _numbers_or_objects(values: NDArray[Any]) -> NDArray[Any]:
    if all(isinstance(value, numbers.Real) for value in values):
        return values.astype(np.float64)
    return values.astype(str)


def usable_labels(labels: NDArray[np.int64], detector: str, needed: bool) -> NDArray[np.int64]:
    """Return the labels if they leave something to learn from, else warn and return none.

    All rows labelled is a warning too, and not an error, because scikit-learn's conventions let any y pass that is
    valid row by row.
    """
    if labels.any() != labels.all() or not (labels.any() or needed):
        return labels
    if labels.all():
        found = f"y labels all {len(labels)} rows as anomalies, so there is nothing to tell them from"
        advice = "Add the unlabelled rows to X, with 0 in y"
    else:
        found = "y labels no row as an anomaly"
        advice = "Pass y with k >= 1 in the rows that are known anomalies"
    warnings.warn(
        f"{found}: {detector} ranks rows without supervision. {advice}.", NoLabelsWarning, stacklevel=4
    )
    return np.zeros_like(labels)


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator of our own for scikit-learn's `random_state`; no global state is read or written.

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
        "random_state must be None, a whole number of at least 0, or a NumPy RandomState or Generator, "
        f"got {random_state!r}."
    )


def check_not_diverged(scores: NDArray[np.floating], name: str) -> None:
    """Raise if a detector that has just learned gives scores that are not finite."""
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{name}'s weights diverged during training. Leave scale=True, or lower the learning rate."
        )
