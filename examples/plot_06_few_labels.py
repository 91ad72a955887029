"""
Few labels
==========

How much do labels help? The same table with 5, 15 and 60 known anomalies, and three draws of each.
"""

import matplotlib.pyplot as plt
import numpy as np

import dplan
from dplan.datasets import scenario
from dplan.metrics import RankedScores

methods = {
    "DPLANEnsemble": dplan.DPLANEnsemble,
    "BoostedBaseline": dplan.BoostedBaseline,
    "LogisticBaseline": dplan.LogisticBaseline,
    "IForest (no labels)": dplan.IForest,
}
numbers, seeds = (5, 15, 60), (0, 1, 2)
task = scenario("covertype-mini/cottonwood-v1")
X_test, normal = task.X_test[::2], task.y_test[::2] == 0
keep = np.r_[np.flatnonzero(task.y > 0), np.flatnonzero(task.y == 0)[::8]]
X, y_all = task.X[keep], task.y[keep]
found = {name: np.zeros((len(numbers), len(seeds))) for name in methods}
for i, n in enumerate(numbers):
    for j, seed in enumerate(seeds):
        known = np.random.default_rng(seed).permutation(np.flatnonzero(y_all > 0))
        y = np.zeros_like(y_all)
        y[known[:n]] = 1
        for name, method in methods.items():
            scores = method(random_state=seed).fit(X, y).anomaly_score(X_test)
            found[name][i, j] = RankedScores(scores).areas(~normal, normal)[0]

# %%
# The bars are the range of the three draws: with five labels, it matters which five.
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, own in found.items():
    middle = own.mean(axis=1)
    spread = np.abs([own.min(axis=1) - middle, own.max(axis=1) - middle])
    ax.errorbar(numbers, middle, yerr=spread, marker="o", capsize=3, label=name)
ax.set(xscale="log", xticks=numbers, xticklabels=numbers)
ax.set(xlabel="known anomalies", ylabel="AUC-PR")
ax.legend(frameon=False)
