"""The methods of the benchmark by name: detectors, variants of DPLAN, and rivals from outside the package."""

from functools import cache
from typing import Any

from dplan.detectors import variants
from dplan.detectors._registry import list_detectors
from experiments.rivals import RIVALS

__all__ = ["create", "detector_class", "method_names"]


def method_names() -> list[str]:
    """List all methods: the detectors, the variants of DPLAN, and the rivals.

    Examples
    --------
    >>> method_names()[0], method_names()[-1]
    ('DPLAN', 'PineForest')
    """
    names = [entry.name for entry in list_detectors()]
    return list(dict.fromkeys([*names, *variants.names(), *RIVALS]))


def create(method: str, **parameters: Any) -> Any:
    """Return the unfitted detector of a method.

    Examples
    --------
    >>> create("ERew"), create("IForest")
    (DPLAN(intrinsic_reward=False), IForest())
    """
    if method in variants.PARAMETERS:
        return variants.variant(method, **parameters)
    if method in RIVALS:
        return RIVALS[method](**parameters)
    return next(entry for entry in list_detectors() if entry.name == method).create(**parameters)


@cache
def detector_class(method: str) -> Any:
    """Return the class of a method, which has its version."""
    return RIVALS[method] if method in RIVALS else type(create(method))
