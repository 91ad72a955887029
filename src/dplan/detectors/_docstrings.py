"""Documentation of the parameters that all detectors share, written once."""

import inspect
import re

_COMMON_PARAMETERS = {
    "scale": """scale : bool, default=True
    Scale every column to [0, 1] using the training rows.""",
    "contamination": """contamination : float, default=0.02
    Fraction of rows like the unlabelled ones that `predict` reports as anomalies. Only affects the threshold.""",
    "random_state": """random_state : int, RandomState, Generator or None, default=None
    Seed. The same seed gives bit-identical results.""",
    "callback": """callback : callable or None, default=None
    Called after each {round_name} as ``callback(detector, metrics)``. The detector can already score rows; `metrics`
    is the latest entry of `history_`. If it returns True, training stops.""",
    "verbose": """verbose : int, default=0
    If non-zero, print one line per {round_name}, or log it if the logger "dplan" is set up.""",
}


def with_common_parameters(doc: str | None, round_name: str) -> str | None:
    """Add the common parameters that the Parameters section of a docstring does not describe itself."""
    head, heading, rest = inspect.cleandoc(doc or "").partition("Parameters\n----------\n")
    if not heading:
        return doc
    own, *others = re.split(r"\n\n(?=\w+\n---)", rest, maxsplit=1)
    missing = [text for name, text in _COMMON_PARAMETERS.items() if not re.search(rf"(?m)^{name} :", own)]
    parameters = "\n".join([own.rstrip(), *missing]).replace("{round_name}", round_name)
    return "\n\n".join([head + heading + parameters, *others])
