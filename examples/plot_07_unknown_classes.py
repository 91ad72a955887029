"""
Classes nobody labelled
=======================

Douglas-fir has no labels. The explorers of DPLANEnsemble look for unusual rows whatever the labels
say, and ``exploration`` is their weight.
"""

import matplotlib.pyplot as plt
import numpy as np

import dplan
from dplan.datasets import scenario

task = scenario("covertype-mini/cottonwood-v1")
keep = np.r_[np.flatnonzero(task.y > 0), np.flatnonzero(task.y == 0)[::2]]
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for exploration in (0.0, 0.5, 1.0):
    detector = dplan.DPLANEnsemble(exploration=exploration, random_state=0)
    scores = detector.fit(task.X[keep], task.y[keep]).anomaly_score(task.X_test)
    order = np.argsort(-scores)
    for ax, name in zip(axes, ("cottonwood", "douglas-fir"), strict=True):
        own = task.y_test[order] == task.classes.index(name)
        ax.plot(own.cumsum() / own.sum(), label=f"exploration {exploration}")
        ax.set(title=name, xlabel="rows looked at", xlim=(0, 1000), ylim=(0, 1))
axes[0].set_ylabel("share found")
axes[1].legend(frameon=False)
