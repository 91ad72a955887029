"""Documentation of the parameters that all detectors share, written once."""

import inspect
import re


def with_common_parameters(doc: str | None, common_doc: str | None, round_name: str) -> str | None:
    """Add the common parameters that the Parameters section of a docstring does not describe itself.

    Examples
    --------
    >>> from dplan import DevNet, IForest
    >>> [kind.__doc__.count("Called after each " + name) for kind, name in ((DevNet, "epoch"), (IForest, "round"))]
    [1, 1]
    """
    head, heading, rest = inspect.cleandoc(doc or "").partition("Parameters\n----------\n")
    if not heading:
        return doc
    own, *others = re.split(r"\n\n(?=\w+\n---)", rest, maxsplit=1)
    common = inspect.cleandoc(common_doc or "").partition(heading)[2].replace("{round_name}", round_name)
    missing = [
        entry
        for entry in re.split(r"\n(?=\w+ :)", common)
        if not re.search(rf"(?m)^{entry.partition(' ')[0]} :", own)
    ]
    return "\n\n".join([head + heading + "\n".join([own.rstrip(), *missing]), *others])
