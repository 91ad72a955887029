"""
In a scikit-learn search
========================

Detectors are scikit-learn estimators. Use the scorers of ``dplan.metrics``: scikit-learn's own
would give a perfect detector the lowest value, because its outlier detectors give anomalies low
scores.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import dplan
from dplan.metrics import average_precision

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 6))
X[:60, :2] += 2.5
y = (np.arange(600) < 60).astype(int)
grid = {"learning_rate": [0.03, 0.1, 0.3], "n_estimators": [50, 100, 200]}
search = GridSearchCV(
    dplan.BoostedBaseline(random_state=0),
    grid,
    scoring=average_precision,
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
)
search.fit(X, y)
print(search.best_params_, round(search.best_score_, 3))

# %%
# The mean AUC-PR of three folds, by both parameters.
rates, sizes = grid["learning_rate"], grid["n_estimators"]
areas = search.cv_results_["mean_test_score"].reshape(len(rates), len(sizes))
figure, ax = plt.subplots(figsize=(4, 3), layout="constrained")
figure.colorbar(ax.imshow(areas, cmap="cividis"))
ax.set_xticks(range(len(sizes)), sizes)
ax.set_yticks(range(len(rates)), rates)
ax.set(xlabel="n_estimators", ylabel="learning_rate")
