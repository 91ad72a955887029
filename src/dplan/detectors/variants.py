"""The variants of DPLAN in the paper's ablation study, by name, and a control of our own.

===========  ===========================================================================================
name         what is different from `DPLAN()`
===========  ===========================================================================================
DPLAN        nothing; the paper's "Org"
ERew         external reward only: the intrinsic reward is removed
REnv         ERew, and the next row is drawn at random from all rows
DQN+         two more hidden layers (500 and 100 units), each followed by dropout of 0.9
Uniform      p is unchanged, but unlabelled rows are drawn uniformly: our control for REnv
UniformERew  Uniform without the intrinsic reward
===========  ===========================================================================================
"""

from typing import Any

from dplan.detectors.dplan import DPLAN

PARAMETERS: dict[str, dict[str, Any]] = {
    "DPLAN": {},
    "ERew": {"intrinsic_reward": False},
    "REnv": {"intrinsic_reward": False, "sampler": "random"},
    "DQN+": {"hidden_units": (500, 100, 20), "dropout": 0.9},
    "Uniform": {"sampler": "uniform"},
    "UniformERew": {"sampler": "uniform", "intrinsic_reward": False},
}


def names() -> list[str]:
    """Return the names of all variants.

    Examples
    --------
    >>> names()
    ['DPLAN', 'ERew', 'REnv', 'DQN+', 'Uniform', 'UniformERew']
    """
    return list(PARAMETERS)


def variant(name: str, **parameters: Any) -> DPLAN:
    """Return a variant as an unfitted detector; other parameters are passed to `DPLAN`.

    Examples
    --------
    >>> variant("ERew", random_state=0)
    DPLAN(intrinsic_reward=False, random_state=0)
    """
    if name not in PARAMETERS:
        raise ValueError(f"unknown variant {name!r}; choose from {', '.join(names())}")
    return DPLAN(**{**PARAMETERS[name], **parameters})
