"""What an ensemble's score is made of, for people."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Kind", "kinds_of_members"]


class Kind(NamedTuple):
    """Members of one kind, and what they weigh together."""

    name: str
    n_members: int
    weight: float


def kinds_of_members(detector: Any) -> list[Kind]:
    """Return the kinds of members that a fitted `DPLANEnsemble` has.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DPLANEnsemble
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> quick = DPLANEnsemble(n_agents=2, n_steps=20, warmup_steps=10, n_rounds=2, n_trees=5, random_state=0)
    >>> [(kind.name, kind.n_members) for kind in kinds_of_members(quick.fit(X, np.arange(200) < 5))]
    [('slow agents', 2), ('fast agents', 2), ('tree agents', 2), ('nearest neighbours', 1), ('isolation forest', 1)]
    """
    n_networks = int(detector.layer_sizes_[-1]) // 2
    *agents, neighbours, forest = detector.member_weights_.tolist()
    networks, trees = agents[:n_networks], agents[n_networks:]
    weights = {
        "slow agents": networks[::2],
        "fast agents": networks[1::2],
        "tree agents": trees,
        "nearest neighbours": [neighbours],
        "isolation forest": [forest],
    }
    return [Kind(name, len(own), sum(own)) for name, own in weights.items() if own]
