"""scikit-learn's base classes, for classes that can be used without importing scikit-learn.

Commands load a fitted model and score rows, which is arithmetic on arrays; importing scikit-learn would take longer
than the rest of the command. Detectors and preparations therefore begin with a stand-in for its base classes, and
`become_estimators` puts the real ones in its place: when a class is taken from `dplan` or `dplan.tables`, as Python
users do, or when an object is asked for something that only scikit-learn can do.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["OutlierEstimator", "TransformerEstimator", "as_estimator", "become_estimators", "check_fitted"]

_lock = threading.Lock()


def _of_scikit_learn(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        become_estimators()
        return getattr(self, name)(*arguments, **options)

    method.__name__ = name
    return method


class _StandIn:
    """What scikit-learn and Python ask of an estimator, whoever created it."""

    n_features_in_: int

    get_params = _of_scikit_learn("get_params")
    set_params = _of_scikit_learn("set_params")
    __repr__ = _of_scikit_learn("__repr__")
    __sklearn_tags__ = _of_scikit_learn("__sklearn_tags__")


class OutlierEstimator(_StandIn):
    """The base of outlier detectors."""


class TransformerEstimator(_StandIn):
    """The base of transformers."""


def become_estimators() -> None:
    """Give all classes, present and future ones, the base classes of scikit-learn.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from dplan import IForest
    >>> issubclass(IForest, BaseEstimator), IForest(n_estimators=5)
    (True, IForest(n_estimators=5))
    """
    from sklearn.base import BaseEstimator, OutlierMixin, TransformerMixin

    mixins: dict[type, type] = {OutlierEstimator: OutlierMixin, TransformerEstimator: TransformerMixin}
    with _lock:
        for base, mixin in mixins.items():
            if base.__bases__ == (_StandIn,):
                base.__bases__ = (mixin, BaseEstimator)
                for kind in _subclasses(base):
                    # What scikit-learn does when a class is created.
                    super(base, kind).__init_subclass__()  # type: ignore[arg-type]


def as_estimator(found: Any) -> Any:
    """Return a public name; if it is one of these classes, all of them are scikit-learn's estimators from now on."""
    if isinstance(found, type) and issubclass(found, _StandIn):
        become_estimators()
    return found


def _subclasses(base: type) -> Iterator[type]:
    kind: type
    for kind in base.__subclasses__():
        yield kind
        yield from _subclasses(kind)


def check_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's NotFittedError unless an estimator has an attribute that fitting sets."""
    if not hasattr(estimator, attribute):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, attribute)
