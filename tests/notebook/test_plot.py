"""Pictures say what the numbers say."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import dplan
from tests.tables.payments import payments

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def new():
    return payments(300, seed=4)


TRUTH = np.arange(300) % 50 == 0


def test_the_threshold_of_the_picture_is_that_of_the_alerts(model, new):
    ax = dplan.plot.threshold(model, new, TRUTH)
    lines = {line.get_label(): line for line in ax.get_lines()}
    level = lines["threshold"].get_xdata()[0]
    assert level == pytest.approx(model.threshold)
    x, share = lines["alerts, share of rows"].get_data()
    n_alerts = (model.score(new) >= model.threshold).sum()
    assert share[x >= model.threshold].max() == n_alerts / 300
    assert lines["recall"].get_ydata()[-1] == 1


def test_histograms_count_every_row_once(model, new):
    ax = dplan.plot.scores(model, new, np.where(TRUTH, "fraud", "other"))
    assert sum(patch.get_height() for group in ax.containers for patch in group) == 300
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["other", "fraud", "threshold"]


def test_effects_are_named_and_signed(model, new):
    explanation = model.explain(new.head(3))
    ax = dplan.plot.effects(explanation, 1, k=3)
    assert len(ax.patches) == 3
    strongest = explanation.names[int(np.abs(explanation.effects[1]).argmax())]
    assert ax.get_yticklabels()[0].get_text().startswith(f"{strongest} = ")
    assert ax.patches[0].get_width() == pytest.approx(
        explanation.effects[1][np.abs(explanation.effects[1]).argmax()]
    )


def test_map_and_drift(model, new):
    ax = dplan.plot.map(model, new)
    drawn = {group.get_label(): len(group.get_offsets()) for group in ax.collections}
    assert drawn["alerts"] + drawn["other rows"] == 300
    assert drawn["known anomalies"] == len(model.known_anomalies)
    assert dplan.plot.map(model, new, ["a"] * 150 + ["b"] * 150).get_legend() is not None
    moved = new.with_columns(new["amount"] + 5000)
    assert dplan.plot.drift(model, moved).get_yticklabels()[0].get_text() == "amount"


def test_a_log_of_verdicts_becomes_a_curve(tmp_path):
    from dplan.review.log import VerdictLog

    log = VerdictLog(tmp_path / "v.jsonl")
    log.close()
    assert dplan.plot.review(tmp_path / "v.jsonl").get_lines()[0].get_ydata().tolist() == [0]


def test_wrong_truth_is_refused(model, new):
    with pytest.raises(ValueError, match="compare words first"):
        dplan.plot.threshold(model, new, ["fraud"] * 300)
    with pytest.raises(ValueError, match="one value for each of the 300 rows"):
        dplan.plot.threshold(model, new, [True])
    with pytest.raises(ValueError, match="need both anomalies and other rows"):
        dplan.plot.precision_recall([0, 0], [1.0, 2.0])


def test_without_matplotlib_the_command_that_installs_it_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.pyplot'] = None\n"
        "import dplan\n"
        "try:\n dplan.plot.review([True])\n"
        "except ImportError as error:\n print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install matplotlib" in run.stdout
