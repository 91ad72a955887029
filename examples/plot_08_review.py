"""
A review of 100 verdicts
========================

Nothing is labelled at first. A person looks at ten rows at a time, and the detector learns from the
verdicts.
"""

import numpy as np

import dplan
from dplan.datasets import scenario

task = scenario("covertype-mini/cottonwood-v1")
keep = np.random.default_rng(0).permutation(len(task.X))[:4000]
X, truth = task.X[keep], task.true_classes[keep] > 0
print(f"{truth.sum()} anomalies among {len(X):,} rows")

y, found = np.zeros(len(X), dtype=int), []
scores = None  # a cold start: the first rows are those that are easy to isolate
for _ in range(10):
    for row in dplan.query(scores, 10, X=X, y=y):
        y[row] = 1 if truth[row] else -1
        found.append(bool(truth[row]))
    if (y > 0).any():
        detector = dplan.DPLANEnsemble(random_state=0).fit(X, y)
        scores = detector.anomaly_score(X)

# %%
# When the curve becomes flat, it is time to stop.
dplan.plot.review(found)
