"""
Wrong and uncertain verdicts
============================

People make mistakes. What do ten wrong verdicts do, and what if the person was not sure about them?
"""

import matplotlib.pyplot as plt
import numpy as np

import dplan
from dplan.datasets import scenario
from dplan.metrics import RankedScores

task = scenario("covertype-mini/cottonwood-v1")
keep = np.r_[np.flatnonzero(task.y > 0), np.flatnonzero(task.y == 0)[::8]]
X, right = task.X[keep], task.y[keep]
rng = np.random.default_rng(0)
wrong = rng.choice(np.flatnonzero(right == 0), 10, replace=False)
y = right.copy()
y[wrong] = 1
doubt = np.ones(len(y))
doubt[wrong] = 0.1
normal = task.y_test == 0

# %%
# ``sample_weight`` is the confidence in a verdict; 0 makes the row unlabelled.
areas = {}
for name, labels, weight in (
    ("all right", right, None),
    ("10 wrong", y, None),
    ("10 wrong, in doubt", y, doubt),
):
    detector = dplan.DPLANEnsemble(random_state=0).fit(X, labels, sample_weight=weight)
    scores = detector.anomaly_score(task.X_test)
    areas[name] = RankedScores(scores).areas(~normal, normal)[0]

figure, ax = plt.subplots(figsize=(6, 2), layout="constrained")
ax.barh(list(areas), list(areas.values()))
ax.invert_yaxis()
ax.set_xlabel("AUC-PR")
