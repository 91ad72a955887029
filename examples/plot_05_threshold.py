"""
Choosing a threshold
====================

How many rows should be alerts? ``contamination`` sets the default threshold, a budget fixes the
number of alerts, and with some checked rows, precision and recall decide.
"""

import dplan
from dplan.datasets import scenario

task = scenario("covertype-mini/cottonwood-v1")
detector = dplan.DPLANEnsemble(random_state=0, contamination=0.05)
detector.fit(task.X, task.y)
anomalous = task.y_test > 0
dplan.plot.threshold(detector, task.X_test, anomalous)

# %%
# Whatever the threshold is, the order of the rows is the same, and so is this curve.
scores = detector.anomaly_score(task.X_test)
dplan.plot.precision_recall(anomalous, scores)

# %%
# A budget: the hundred highest scores.
from dplan.metrics import precision_at

print(f"{precision_at(100, anomalous, scores):.0%} of the first 100 are anomalies")
