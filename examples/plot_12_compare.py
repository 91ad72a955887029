"""
Compare detectors
=================

All detectors on one table, with the same rows and labels. One split proves little: the evidence
pages have many tables and seeds.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import dplan
from dplan.datasets import scenario
from dplan.metrics import RankedScores

task = scenario("covertype-mini/cottonwood-v1")
keep = np.r_[np.flatnonzero(task.y > 0), np.flatnonzero(task.y == 0)[::8]]
X, y, normal = task.X[keep], task.y[keep], task.y_test == 0
quick = {
    "DPLAN": {"n_steps": 4000, "warmup_steps": 1000},
    "DeepSAD": {"n_epochs": 10},
}
found = {}
for name in ("DPLANEnsemble", "BoostedBaseline", "LogisticBaseline", "IForest", "DevNet", "PReNet"):
    detector = getattr(dplan, name)(random_state=0, **quick.get(name, {}))
    start = time.perf_counter()
    scores = detector.fit(X, y).anomaly_score(task.X_test)
    found[name] = RankedScores(scores).areas(~normal, normal)[0], time.perf_counter() - start

# %%
# AUC-PR, with the seconds of fitting and scoring beside the bars.
order = sorted(found, key=lambda name: found[name][0])
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
bars = ax.barh(order, [found[name][0] for name in order])
ax.bar_label(bars, [f"{found[name][1]:.1f} s" for name in order], padding=3)
ax.set_xlabel("AUC-PR")
