"""
Drift: last year's model
========================

Prices rise, and a new country appears. Which columns changed, and what does that do to the number
of alerts?
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import dplan


def month(n, seed, inflation=1.0, new_country=0.0):
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.02
    country = np.where(rng.random(n) < new_country, "NO", rng.choice(["DE", "FR", "PL"], n))
    amount = rng.lognormal(3, 1, n) * inflation * np.where(fraud, 15, 1)
    return pl.DataFrame({"amount": amount.round(2), "country": country}), fraud


table, fraud = month(3000, seed=0)
detector = dplan.TableDetector(dplan.BoostedBaseline(random_state=0))
detector.fit(table, fraud & (np.arange(3000) % 3 == 0))

# %%
# A year later:
later, _ = month(1500, seed=13, inflation=2.2, new_country=0.2)
dplan.plot.drift(detector, later)

# %%
# Alerts per month, while prices rise. If far more rows are alerts than in training, it is time to fit again.
share = [np.mean(detector.predict(month(1500, seed, 1 + 0.1 * seed)[0]) == -1) for seed in range(1, 13)]
figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.bar(range(1, 13), share)
ax.axhline(0.02, linestyle="--", color="grey")
ax.set(xlabel="month", ylabel="share of alerts")
