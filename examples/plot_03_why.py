"""
Why is this row suspicious?
===========================

Effects say how much each column raises or lowers the score of a row. They add up to the score.
"""

import matplotlib.pyplot as plt
import numpy as np

import dplan
from dplan.datasets import scenario

task = scenario("covertype-mini/cottonwood-v1")
detector = dplan.TableDetector(dplan.BoostedBaseline(random_state=0))
detector.fit(task.features, task.y)
alerts = detector.alerts(task.features_test, budget=3)
rows = task.features_test[alerts.frame["row"].to_numpy() - 1]
explanation = detector.explain(rows)

figure, axes = plt.subplots(1, 3, figsize=(13, 3), layout="constrained")
for i, ax in enumerate(axes):
    explanation.bar(i, k=5, ax=ax)

# %%
# The mean score of background rows plus all effects is the score.
total = explanation.baseline + explanation.effects.sum(axis=1)
print(np.abs(total - explanation.scores).max() < 1e-6)

# %%
# The same as a frame, and in words.
explanation.frame().head(4)

# %%
alerts[0]
