"""Every detector with small settings, so that it can be fitted many times in the shared tests.

A new detector only has to be added here.
"""

import dplan
from dplan import variants
from dplan.detectors._base import Detector

_FEW_STEPS = {"n_steps": 300, "warmup_steps": 100, "episode_steps": 100, "n_trees": 10}
_FEW_EPOCHS = {"n_epochs": 3, "epoch_batches": 5, "batch_size": 64}

QUICK: dict[str, Detector] = {
    **{name: variants.variant(name, random_state=0, **_FEW_STEPS) for name in variants.names()},
    "DPLANEnsemble": dplan.DPLANEnsemble(
        n_agents=1, n_steps=300, warmup_steps=100, n_rounds=5, n_trees=10, tree_size=32, random_state=0
    ),
    "DevNet": dplan.DevNet(random_state=0, **_FEW_EPOCHS),
    "DeepSAD": dplan.DeepSAD(random_state=0, **_FEW_EPOCHS),
    "DeepSAD, inverse": dplan.DeepSAD(loss="inverse", random_state=0, **_FEW_EPOCHS),
    "REPEN": dplan.REPEN(n_samples=5, random_state=0, **_FEW_EPOCHS),
    "IForest": dplan.IForest(n_estimators=10, random_state=0),
    "DUA": dplan.DUA(random_state=0, **_FEW_EPOCHS),
    "PReNet": dplan.PReNet(random_state=0, **_FEW_EPOCHS),
    "LogisticBaseline": dplan.LogisticBaseline(random_state=0),
    "BoostedBaseline": dplan.BoostedBaseline(n_estimators=10, random_state=0),
}

# A weight says how far a verdict is believed; rows without a verdict have none.
NO_COPIES = {
    "check_sample_weight_equivalence_on_dense_data": "sample_weight is confidence, not a number of copies"
}
