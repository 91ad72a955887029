"""
Kinds of alerts
===============

Two classes of anomaly are known. On the map, rows that the detector finds similar are close
together.
"""

import numpy as np

import dplan
from dplan.datasets import scenario

task = scenario("covertype-mini/cottonwood-v1")
# Some plots of both classes are known: 1 is cottonwood, 2 is douglas-fir.
rng = np.random.default_rng(0)
y = task.y.copy()
douglas = np.flatnonzero(task.true_classes == 2)
y[rng.choice(douglas, min(30, len(douglas)), replace=False)] = 2
detector = dplan.TableDetector(dplan.BoostedBaseline(random_state=0))
detector.fit(task.features, y)
alerts = detector.alerts(task.features_test, budget=60)
alerts[0]

# %%
# Which known anomalies are the alerts most like?
classes = [card.nearest[0].rpartition("(")[2].rstrip(")") for card in alerts]
print({name: classes.count(name) for name in sorted(set(classes))})

# %%
groups = [task.classes[k] for k in task.y_test]
dplan.plot.map(detector, task.features_test, groups)
