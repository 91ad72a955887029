"""What verdicts on the top of the list are worth, on real rows: alerts on forest plots of the embedded data.

Twenty anomalies are known. A person looks at the 250 highest scores, and the model is updated with the verdicts.
"""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from dplan import DPLANEnsemble
from dplan.datasets import load
from dplan.tables import fit_table, from_table, update_model

SEEDS = range(6)  # one review alone says little: gains lie between 0.04 and 0.12
N_ROWS, N_ANOMALIES, N_KNOWN, N_REVIEWED = 8_000, 360, 20, 250


def with_labels(features, labels):
    return from_table(features.with_columns(verdict=pl.Series(labels)), label="verdict", partial=True)


def fitted(features, labels, seed):
    detector = DPLANEnsemble(n_agents=2, n_jobs=-1, random_state=seed)
    return fit_table(with_labels(features, labels), detector, estimate=False)


def reviewed(seed):
    """Return training rows, unseen rows, a model that knows few anomalies, and verdicts on its highest scores."""
    data, rng = load("covertype-mini"), np.random.default_rng(seed)
    normal, odd = (
        rng.permutation(np.flatnonzero((data.class_numbers > 0) == kind)) for kind in (False, True)
    )
    n_normal = N_ROWS - N_ANOMALIES
    rows = rng.permutation(np.concatenate([normal[:n_normal], odd[:N_ANOMALIES]]))
    unseen = np.concatenate([normal[n_normal : n_normal + 5_700], odd[N_ANOMALIES : N_ANOMALIES + 270]])
    features, anomalous = data.features[rows], data.class_numbers[rows] > 0
    labels = np.zeros(N_ROWS, dtype=np.int64)
    labels[rng.choice(np.flatnonzero(anomalous), N_KNOWN, replace=False)] = 1
    model = fitted(features, labels, seed)
    left = np.flatnonzero(labels == 0)
    top = left[np.argsort(-model.score(features)[left], kind="stable")[:N_REVIEWED]]
    truth = data.class_numbers[unseen] > 0
    return SimpleNamespace(
        features=features,
        labels=labels,
        model=model,
        top=top,
        verdicts=np.where(anomalous[top], 1, -1),
        quality=lambda found: average_precision_score(truth, found.score(data.features[unseen])),
        seed=seed,
    )


@pytest.fixture(scope="module")
def reviews():
    """Return reviews, each with its updated model, and the quality before and after."""
    found = [reviewed(seed) for seed in SEEDS]
    for review in found:
        review.updated = update_model(review.model, with_labels(review.features[review.top], review.verdicts))
        review.before, review.after = review.quality(review.model), review.quality(review.updated)
    return found


def gain(reviews, qualities):
    return np.mean([quality - review.before for review, quality in zip(reviews, qualities, strict=True)])


def test_reviewed_false_alarms_leave_the_top(reviews):
    n_false = n_left = 0
    for review in reviews:
        top = np.argsort(-review.updated.score(review.features), kind="stable")[:N_REVIEWED]
        false_alarms = review.top[review.verdicts < 0]
        n_false += len(false_alarms)
        n_left += np.isin(false_alarms, top).sum()
    assert n_false > 80
    assert n_left <= 0.02 * n_false


def test_false_alarms_teach_about_as_much_as_thirty_copies_of_each_as_unlabelled_rows(reviews):
    qualities = []
    for review in reviews:
        finds, false_alarms = (review.top[review.verdicts == kind] for kind in (1, -1))
        rows = np.concatenate([finds, np.repeat(false_alarms, 30)])
        labels = (np.arange(len(rows)) < len(finds)).astype(np.int64)
        copies = with_labels(review.features[rows], labels)
        qualities.append(review.quality(update_model(review.model, copies)))
    # On one processor 0.080 against 0.087, and the difference has a standard error of 0.003. Here, where most verdicts
    # are false alarms, they could count for more; on other tables that costs what is known.
    assert gain(reviews, [review.after for review in reviews]) > gain(reviews, qualities) - 0.012


def test_a_tenth_of_wrong_verdicts_does_not_undo_the_gain(reviews):
    """It depends much on which verdicts are wrong, so this is a mean over two draws in each review.

    Over twelve seeds and three draws, 91 % of the gain remain.
    """
    qualities = []
    for review in reviews:
        found = []
        for draw in range(2):
            wrong = np.random.default_rng([review.seed, draw]).permutation(N_REVIEWED) < 0.1 * N_REVIEWED
            flipped = with_labels(review.features[review.top], np.where(wrong, -1, 1) * review.verdicts)
            found.append(review.quality(update_model(review.model, flipped)))
        qualities.append(np.mean(found))
    right = gain(reviews, [review.after for review in reviews])
    assert right > 0.05
    assert gain(reviews, qualities) > 0.8 * right


def test_ten_updates_forget_nothing(reviews):
    """The verdicts arrive in ten parts, against a model fitted on all rows and all verdicts at once."""
    differences = []
    for review in reviews[:3]:
        model = review.model
        for part in np.array_split(np.random.default_rng(review.seed).permutation(N_REVIEWED), 10):
            model = update_model(model, with_labels(review.features[review.top[part]], review.verdicts[part]))
        labels = review.labels.copy()
        labels[review.top] = review.verdicts
        differences.append(
            review.quality(model) - review.quality(fitted(review.features, labels, review.seed))
        )
    assert np.mean(differences) >= -0.01, differences
