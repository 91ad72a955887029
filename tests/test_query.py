"""Which rows to ask about."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import dplan


def test_the_name_is_a_function_whatever_was_imported_first():
    code = "import dplan.review.engine; print(dplan.query([1, 3, 2], 2).tolist(), dplan.review.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[1, 2] review"
    assert "diverse" in inspect.signature(dplan.query).parameters


def test_the_highest_scores_without_a_verdict_come_first():
    scores = np.array([0.1, 0.9, 0.9, 0.7, 0.2, 0.8])
    assert dplan.query(scores, 3).tolist() == [1, 2, 5]
    assert dplan.query(scores, 3, y=[0, 1, -1, 0, 0, 0]).tolist() == [5, 3, 4]
    assert dplan.query(scores, 9, y=[0, 1, -1, 0, 2, 0]).tolist() == [5, 3, 0]
    assert dplan.query(scores, 3, y=[1] * 6).tolist() == []


def test_near_duplicates_wait_for_the_next_batch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    X[:30] = [5, 5, 5, 5] + 0.001 * rng.normal(size=(30, 4))
    X[30:40] = rng.normal(size=(10, 4)) * 3 + 9
    scores = np.where(np.arange(400) < 30, 2.0, np.where(np.arange(400) < 40, 1.0, 0.0))
    assert (dplan.query(scores, 10) < 30).all()
    chosen = dplan.query(scores, 10, X=X, diverse=True)
    assert (chosen < 30).sum() == 1
    assert chosen[0] == 0
    assert len(set(chosen.tolist())) == 10
    # If nothing else is left, duplicates are better than nothing.
    y = (np.arange(400) >= 30).astype(int)
    assert len(dplan.query(scores, 10, X=X, y=y, diverse=True)) == 10


def test_some_rows_are_those_that_only_novelty_finds():
    scores, novelty = np.arange(100.0), np.arange(100.0)[::-1].copy()
    assert dplan.query(scores, 10, explore=0.3, novelty=novelty).tolist() == [*range(99, 92, -1), 0, 1, 2]
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[5] = 12
    found = dplan.query(-np.ones(300) * (np.arange(300) == 5), 4, X=X, explore=0.25)
    assert found[-1] == 5
    assert 5 not in dplan.query(-np.ones(300) * (np.arange(300) == 5), 4)


def test_a_cold_start_ranks_by_isolation_and_is_reproducible():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1, 100, 0.01]
    X[[17, 40]] *= 9
    first = dplan.query(n=2, X=X)
    assert sorted(first.tolist()) == [17, 40]
    np.testing.assert_array_equal(dplan.query(n=50, X=X, diverse=True), dplan.query(n=50, X=X, diverse=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass X"),
        ({"scores": [1, np.nan]}, "scores must be a 1-D array of finite numbers"),
        ({"scores": [1, 2], "n": 0}, "n must be an integer >= 1"),
        ({"scores": [1, 2], "explore": 2}, "explore must be a number in"),
        ({"scores": [1, 2], "explore": 0.5}, "without novelty"),
        ({"scores": [1, 2], "explore": 0.5, "novelty": [1, 2, 3]}, "novelty has 3 values"),
        ({"scores": [1, 2], "diverse": True}, "needs X"),
        ({"scores": [1, 2], "X": np.ones((3, 2))}, "X has 3 rows, but there are 2 scores"),
        ({"scores": [1, 2], "y": [0, -2]}, "row 1 is -2"),
        ({"X": [[np.inf]]}, "X must be a 2-D array of finite numbers"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        dplan.query(**arguments)
