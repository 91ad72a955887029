"""All scenarios of the paper: sizes, contamination, no leak, and the same rows for the same seed."""

import hashlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan.datasets import load, scenario, scenario_id, scenarios
from dplan.datasets.loading import Dataset
from dplan.datasets.registry import CATALOG
from dplan.datasets.splits import Stream, equal_shares, split_by_class
from dplan.datasets.tasks import synthetic_anomalies

PAPER = [id for id in scenarios() if not id.startswith("covertype-mini/")]
MINI = "covertype-mini/cottonwood-v1"


def test_the_papers_48_and_the_pollution_scenarios_are_listed():
    one, more, pollution = (
        [id for id in scenarios(experiment) if id in PAPER]
        for experiment in ("one-class", "more-classes", "pollution")
    )
    assert (len(one), len(more), len(pollution)) == (13, 35, 78)
    assert len(set(PAPER)) == 126
    assert [len(scenario_id(id).known) for id in more] == [2, 3, 4, 5, 6] * 7
    assert sorted({scenario_id(id).contamination for id in pollution}) == [0.02, 0.04, 0.06, 0.08, 0.1, 0.12]


@pytest.mark.parametrize("id", scenarios())
def test_scenario(id, dataset):
    entry = scenario_id(id)
    data = dataset(entry.dataset)
    source = CATALOG[entry.dataset]
    task = scenario(id, seed=3, dataset=data)
    true_classes = data.class_numbers

    # Sizes: 80 % and 20 % of each class after capping, and 60 labelled rows of each known class.
    sizes = [
        size if k == 0 or source.max_rows_per_class is None else min(size, source.max_rows_per_class)
        for k, size in enumerate(data.counts().values())
    ]
    assert np.bincount(task.y_test).tolist() == [round(0.2 * size) for size in sizes]
    labelled = task.y > 0
    n_normal = sizes[0] - round(0.2 * sizes[0])
    assert np.bincount(task.y[labelled], minlength=len(sizes)).tolist() == [
        60 * (k in task.known) for k in range(len(sizes))
    ]
    assert (task.true_classes[~labelled] == 0).sum() == n_normal

    # Contamination: the share of anomalies among the unlabelled rows, to the nearest row.
    n_anomalies = (task.true_classes[~labelled] > 0).sum()
    assert abs(n_anomalies - entry.contamination * (~labelled).sum()) <= 1

    # Synthetic rows only where the real ones have run out.
    real = task.rows >= 0
    assert task.n_synthetic == (~real).sum()
    training_anomalies = sum(size - round(0.2 * size) for size in sizes[1:])
    if task.n_synthetic:
        assert (real & (task.true_classes > 0)).sum() == training_anomalies
    else:  # … and in equal shares as far as they go
        shares = np.bincount(task.true_classes[~labelled], minlength=len(sizes))[1:]
        used_up = [
            sizes[k] - round(0.2 * sizes[k]) - 60 * (k in task.known) == shares[k - 1]
            for k in range(1, len(sizes))
        ]
        not_used_up = shares[~np.array(used_up)]
        assert not_used_up.max(initial=0) - not_used_up.min(initial=10**9) <= 1

    # Rows are what they are said to be, and none stands twice or on both sides.
    np.testing.assert_array_equal(true_classes[task.rows[real]], task.true_classes[real])
    np.testing.assert_array_equal(true_classes[task.rows_test], task.y_test)
    np.testing.assert_array_equal(task.y[labelled], task.true_classes[labelled])
    used = np.concatenate([task.rows[real], task.rows_test])
    assert len(np.unique(used)) == len(used)

    # No copy of a test row stands in training.
    assert not np.isin(data.copy_groups[task.rows[real]], data.copy_groups[task.rows_test]).any()

    # Known and unknown classes.
    assert [task.classes[k] for k in task.known] == list(entry.known)
    assert sorted(task.known + task.unknown) == list(range(1, len(task.classes)))
    assert len(task.unknown) >= 1
    np.testing.assert_array_equal(task.known_mask | task.unknown_mask, task.y_test > 0)
    assert not (task.known_mask & task.unknown_mask).any()

    # The same seed gives the same rows, another one does not.
    again = scenario(id, seed=3, dataset=data)
    np.testing.assert_array_equal(again.rows, task.rows)
    np.testing.assert_array_equal(again.rows_test, task.rows_test)
    np.testing.assert_array_equal(again.y, task.y)
    assert not np.array_equal(np.sort(scenario(id, seed=4, dataset=data).rows_test), np.sort(task.rows_test))


@pytest.mark.parametrize(
    "id",
    [
        "unsw_nb15/dos-v1",
        "annthyroid/hypothyroid-pollution12-v1",
        "har/upstairs-pollution6-v1",
        "covertype/cottonwood-pollution8-v1",
    ],
)
def test_prepared_features(id, dataset):
    task = scenario(id, dataset=dataset(scenario_id(id).dataset))
    dimensions = task.dataset.dimensions
    assert task.X.shape == (len(task.y), dimensions)
    assert task.X_test.shape == (len(task.y_test), dimensions)
    for X in (task.X, task.X_test):
        assert X.dtype == np.float32
        assert X.flags.c_contiguous
        assert np.isfinite(X).all()
    assert task.X.min() == 0
    assert task.X.max() == 1


def test_preparing_learns_from_training_rows_alone(dataset):
    task = scenario("unsw_nb15/dos-v1", dataset=dataset("unsw_nb15"))
    column = task.features.columns.index("sload")
    assert task.preparer.columns_[column].maximum == task.features["sload"].max()
    assert task.X_test.max() > 1  # test rows beyond the training rows' range are neither cut nor learned from


@pytest.mark.parametrize(
    "id",
    [
        "annthyroid/subnormal-pollution12-v1",
        "har/downstairs-pollution12-v1",
        "covertype/cottonwood-pollution12-v1",
    ],
)
def test_synthetic_rows_are_real_anomalies_with_few_features_swapped(id, dataset):
    data = dataset(scenario_id(id).dataset)
    task = scenario(id, dataset=data)
    made = task.features.filter(task.rows < 0)
    assert made.height == task.n_synthetic > 0
    # None is a copy of a row of the table, so none is a copy of a test row.
    assert made.join(data.features, on=data.features.columns, how="semi").is_empty()
    # Each differs from the nearest real unlabelled anomaly in at most 5 % of the features (at least one).
    unlabelled = (task.y == 0) & (task.true_classes > 0) & (task.rows >= 0)
    origins = data.features[task.rows[unlabelled]].to_numpy()
    allowed = max(1, int(0.05 * data.features.width))
    for row in made.to_numpy()[:: max(1, made.height // 50)]:
        assert 1 <= (origins != row).sum(axis=1).min() <= allowed


def test_scenarios_of_a_data_set_share_the_test_set(dataset):
    data = dataset("unsw_nb15")
    tests = [scenario(id, dataset=data).rows_test for id in scenarios(dataset="unsw_nb15")[::10]]
    for rows in tests[1:]:
        np.testing.assert_array_equal(rows, tests[0])


def test_more_known_classes_add_to_the_labelled_rows(dataset):
    data = dataset("unsw_nb15")
    before: set[int] = set()
    for id in ["unsw_nb15/fuzzers-v1", *(f"unsw_nb15/fuzzers-known{n}-v1" for n in range(2, 7))]:
        task = scenario(id, dataset=data)
        labelled = set(task.rows[task.y > 0].tolist())
        assert before < labelled
        before = labelled


@pytest.mark.parametrize("stem", ["annthyroid/hypothyroid", "har/upstairs", "unsw_nb15/dos"])
def test_more_pollution_adds_anomalies(stem, dataset):
    data = dataset(stem.split("/")[0])
    before_rows: set[int] = set()
    before_made = data.features.clear()
    for percent in (2, 4, 6, 8, 10, 12):
        task = scenario(f"{stem}-pollution{percent}-v1", dataset=data)
        rows = set(task.rows[(task.true_classes > 0) & (task.rows >= 0)].tolist())
        assert before_rows <= rows
        made = task.features.filter(task.rows < 0)
        assert before_made.join(made, on=made.columns, how="anti").is_empty()
        before_rows, before_made = rows, made
    base = scenario(f"{stem}-v1", dataset=data)
    np.testing.assert_array_equal(base.rows, scenario(f"{stem}-pollution2-v1", dataset=data).rows)


def test_protocols():
    fixed = [scenario(MINI, seed=seed, protocol="fixed") for seed in (0, 1)]
    np.testing.assert_array_equal(fixed[0].rows, fixed[1].rows)
    assert [task.seed for task in fixed] == [0, 1]
    resampled = [scenario(MINI, seed=seed, protocol="resampled") for seed in (0, 1)]
    for part in ("rows_test", "rows"):
        assert set(getattr(resampled[0], part).tolist()) != set(getattr(resampled[1], part).tolist())


def test_version_1_draws_these_rows_for_good():
    # If this fails, ids that end in -v1 name other rows than before: add a version instead.
    task = scenario("covertype-mini/cottonwood-pollution12-v1", seed=5)
    parts = [
        task.rows,
        task.rows_test,
        task.y,
        task.true_classes,
        task.features.filter(task.rows < 0).to_numpy(),
    ]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in parts))
    assert digest.hexdigest() == "0b1351d4c233e01ea55629b0eb22d91d20d541dfd49b2d1f0be6df9c1ad19024"


@pytest.mark.parametrize("n_labelled", [1, 15, 320])
def test_any_number_of_labelled_rows(n_labelled):
    task = scenario(MINI, n_labelled=n_labelled)
    assert (task.y == 1).sum() == n_labelled
    assert task.notes == ()


def test_more_labelled_rows_than_there_are():
    task = scenario(MINI, n_labelled=1000)
    assert (task.y == 1).sum() == 320
    assert task.notes == (
        "class cottonwood: 320 labelled rows instead of 1000, all that the training rows have",
    )


@pytest.mark.parametrize("contamination", [0.0, 0.005, 0.3])
def test_any_contamination(contamination):
    task = scenario(MINI, contamination=contamination)
    assert (task.true_classes[task.y == 0] > 0).mean() == pytest.approx(contamination, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"id": "covertype-mini/oak-v1"},
            "unknown scenario 'covertype-mini/oak-v1': for example covertype-mini/cot",
        ),
        ({"id": "mnist/7-v1"}, "data sets are unsw_nb15, annthyroid"),
        ({"seed": -1}, "seed must be 0 or more, not -1"),
        ({"protocol": "random"}, "protocol must be 'fixed' or 'resampled', not 'random'"),
        ({"n_labelled": 0}, "n_labelled must be at least 1, not 0"),
        ({"contamination": 1.0}, "contamination must be at least 0 and below 1, not 1.0"),
        (
            {"id": "har/upstairs-v1", "dataset": load("covertype-mini")},
            "the id is for 'har', but dataset is 'covertype-mini'",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        scenario(**{"id": MINI, **arguments})


# The draws underneath


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_copies_are_never_parted(data):
    n = data.draw(st.integers(1, 60))
    classes = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    groups = np.array(data.draw(st.lists(st.integers(0, 25), min_size=n, max_size=n)))
    in_test = split_by_class(classes, groups, 0.2, Stream(data.draw(st.integers(0, 99))))
    assert not set(groups[in_test]) & set(groups[~in_test])
    assert (
        np.bincount(classes[in_test], minlength=4) <= np.rint(0.2 * np.bincount(classes, minlength=4))
    ).all()


def test_a_copied_row_is_as_likely_to_be_tested_as_any_other():
    groups = np.concatenate([np.arange(100), np.repeat(np.arange(100, 125), 4)])
    classes = np.zeros(200, dtype=np.int64)
    share = np.mean([split_by_class(classes, groups, 0.2, Stream(seed))[100:].mean() for seed in range(200)])
    assert share == pytest.approx(0.2, abs=0.01)


@given(st.integers(0, 200), st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_equal_shares(total, available):
    shares = equal_shares(total, available)
    assert sum(shares) == min(total, sum(available))
    assert all(0 <= share <= n for share, n in zip(shares, available, strict=True))
    open_shares = [share for share, n in zip(shares, available, strict=True) if share < n]
    assert not open_shares or max(shares) - min(open_shares) <= 1
    one_more = equal_shares(total + 1, available)
    assert all(share <= more for share, more in zip(shares, one_more, strict=True))


def test_streams_are_uniform_and_apart():
    draws = np.concatenate([Stream(seed).below(10, 1000) for seed in range(20)])
    assert (np.abs(np.bincount(draws) - 2000) < 4 * np.sqrt(2000 * 0.9)).all()
    firsts = [Stream(seed).shuffled(np.arange(10))[0] for seed in range(2000)]
    assert (np.abs(np.bincount(firsts) - 200) < 4 * np.sqrt(200 * 0.9)).all()
    assert Stream(1, 2).shuffled(np.arange(50)).tolist() != Stream(2, 1).shuffled(np.arange(50)).tolist()


def test_too_few_real_anomalies_for_synthetic_ones():
    data = load("covertype-mini")
    with pytest.raises(ValueError, match="need at least two real ones in training, there are 1"):
        synthetic_anomalies(data, np.array([5]), 10, Stream(0))
    alike = Dataset(data.source, pl.DataFrame({"a": [1, 1, 1]}), pl.Series([2, 4, 4]), data.path)
    with pytest.raises(ValueError, match="0 of 10 synthetic anomalies could be made"):
        synthetic_anomalies(alike, np.array([1, 2]), 10, Stream(0))
