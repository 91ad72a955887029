"""Every detector, small enough to be fitted many times: the suites in this folder run over all of them.

A new detector is added here and nowhere else in these suites.
"""

from dplan import variants
from dplan.detectors._base import Detector

_FEW_STEPS = {"n_steps": 300, "warmup_steps": 100, "episode_steps": 100, "n_trees": 10}

QUICK: dict[str, Detector] = {
    name: variants.variant(name, random_state=0, **_FEW_STEPS) for name in variants.names()
}
