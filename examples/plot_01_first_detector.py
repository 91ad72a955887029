"""
A first detector
================

Sixty forest plots are known to be cottonwood. Which of the other plots should a forester look at?

The detector learns from the known anomalies and from thousands of unlabelled rows, most of them
normal.
"""

import dplan
from dplan.datasets import scenario

task = scenario("covertype-mini/cottonwood-v1")
print(f"{task.X.shape[0]:,} training rows, {(task.y > 0).sum()} of them labelled")

detector = dplan.DPLANEnsemble(random_state=0)
detector.fit(task.X, task.y)

# %%
# Scores are higher for more anomalous rows. They have no unit: read the percentile among the unlabelled training rows.
scores = detector.anomaly_score(task.X_test)
print(scores[:5].round(2), detector.percentile(task.X_test[:5]))

# %%
# Known and unknown classes of anomaly, beside normal plots. Douglas-fir had no labels at all.
truth = [task.classes[k] for k in task.y_test]
dplan.plot.scores(detector, task.X_test, truth)
