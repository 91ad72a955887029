"""Model files that someone made to do harm: refused with one line, or scored finitely, in little time and memory."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner

import dplan
from dplan._kernels.trees import Trees
from dplan.cli.main import main
from dplan.detectors._fields import check_trees
from dplan.exceptions import ModelFileError, NonFiniteScoreError
from tests.conftest import PROJECT
from tests.persistence.crafted_trials import SECONDS, measured, outcome, trials
from tests.persistence.crafting import ODD, Draft, places, read_originals, write_originals

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits and measures processes as Linux does")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    write_originals(folder)
    return folder


@pytest.fixture
def draft(folder):
    originals = {
        d.description["detector"]: d for d in read_originals(folder) if not d.description["preparation"]
    }

    def copied(name):
        return Draft(originals[name].description, originals[name].tensors)

    return copied


def check(folder, seeds, environment):
    """Try crafted files, half of them in each of two processes, and print what became of them."""
    halves = [(seeds.start, seeds.start + len(seeds) // 2), (seeds.start + len(seeds) // 2, seeds.stop)]
    with ThreadPoolExecutor(2) as pool:
        found = [
            trial
            for part in pool.map(lambda half: list(trials(folder, *half, environment)), halves)
            for trial in part
        ]
    kinds = Counter(trial["found"].split(":")[0] for trial in found)
    seconds, memory = (max(trial[key] for trial in found) for key in ("seconds", "memory"))
    print(  # noqa: T201
        f"\n{len(found)} crafted files: {dict(kinds)}; the slowest {seconds:.2f} s, the largest {memory / 2**20:.0f} MB"
    )
    assert [t for t in found if not t["found"].startswith(("refused: ", "scored", "not finite"))] == []
    assert [trial["seed"] for trial in found] == list(seeds)
    assert seconds <= SECONDS
    assert memory <= 500 * 2**20
    # If nearly all were refused at once, or nearly none, the checks behind the digest would not be tried.
    assert 0.1 < kinds["scored"] / len(found) < 0.6
    assert 0.3 < kinds["refused"] / len(found) < 0.9


@on_linux
@pytest.mark.parametrize(
    "seeds", [range(150), pytest.param(range(1_000, 3_500), marks=pytest.mark.soak)], ids=["short", "full"]
)
def test_crafted_files_are_rejected_or_score_finitely(seeds, folder):
    check(folder, seeds, os.environ)


@on_linux
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)], ids=["some", "all"])
def test_every_place_of_the_header_may_have_any_value(step, folder):
    """Each value of the description of a table's model is replaced by each odd one, removed, and given a neighbour."""
    originals = [d for d in read_originals(folder) if d.description["preparation"]]
    original = next(d for d in originals if d.description["detector"] == "IForest")
    everything = [
        (i, odd) for i in range(len(places(original.description))) for odd in (*ODD, "removed", "unknown")
    ]
    kinds = Counter()
    for i, odd in everything[::step]:
        made = Draft(original.description, original.tensors)
        where, key = places(made.description)[i]
        if odd == "removed":
            del where[key]
        elif odd == "unknown" and isinstance(where, dict):
            where["spin"] = 7
        else:
            where[key] = odd
        found = measured(made.signed())
        kind = found["found"].partition(":")[0]
        assert kind in ("refused", "scored", "not finite"), (key, odd, found)
        assert found["memory"] < 500 * 2**20
        kinds[kind] += 1
    print(f"\n{kinds.total()} of {len(everything)} headers: {dict(kinds)}")  # noqa: T201
    assert kinds.total() > 100
    assert kinds["refused"] > kinds.total() / 2


OUTSIDE = """
import numpy as np
from dplan._kernels.trees import complete_trees, sum_of_leaves
stump = complete_trees(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32), np.ones((1, 2), np.float32))
stump.children[0] = 99
sum_of_leaves(stump, np.zeros((2, 1), dtype=np.float32))
"""


@on_linux
@pytest.mark.soak
def test_no_kernel_reaches_outside_of_its_arrays(folder, tmp_path):
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", OUTSIDE], env=checked, capture_output=True, text=True, check=False
    )
    assert run.stderr.rstrip().splitlines()[-1].startswith("IndexError: index")  # so it would be noticed
    check(folder, range(1_000, 3_000), checked)


def refused(draft):
    found = outcome(draft.signed())
    assert found.startswith("refused: "), found
    return found


def one_leaf_trees(draft, name, n, depth):
    nodes = np.arange(n, dtype=np.int32)
    draft.tensors |= {
        f"{name}.roots": nodes,
        f"{name}.depths": np.full(n, depth, dtype=np.int32),
        f"{name}.children": np.stack([nodes, nodes], axis=1),
        f"{name}.features": np.zeros(n, dtype=np.int32),
        f"{name}.thresholds": np.zeros(n, dtype=np.float32),
        f"{name}.values": np.ones(n),
    }


@pytest.mark.parametrize("name", ["IForest", "BoostedBaseline"])
def test_the_stored_depth_of_trees_is_checked(name, draft):
    made = draft(name)
    one_leaf_trees(made, "trees_", 30_000, depth=30_000)
    assert "tree 0 has a depth of 0, but the file says 30,000" in refused(made)
    one_leaf_trees(made, "trees_", 30_000, depth=0)
    assert outcome(made.signed()) == "scored"


@pytest.mark.parametrize("name", ["IForest", "BoostedBaseline"])
def test_a_model_without_trees_is_rejected(name, draft):
    made = draft(name)
    made.tensors |= {key: tensor[:0] for key, tensor in made.tensors.items() if key.startswith("trees_.")}
    assert "trees_.roots is empty" in refused(made)


def test_deep_and_stray_nodes_are_rejected():
    inner = 2 * np.arange(1_500)
    children = np.stack([np.arange(3_001)] * 2, axis=1)
    children[inner] = np.stack([inner + 1, inner + 2], axis=1)
    parts = {"features": np.zeros(3_001, int), "thresholds": np.zeros(3_001), "values": np.zeros(3_001)}
    chain = Trees(roots=np.array([0]), depths=np.array([1_500]), children=children, **parts)
    with pytest.raises(ValueError, match="tree 0 is more than 1,000 levels deep"):
        check_trees("trees_", chain, n_columns=1)
    cut = children.copy()
    cut[2_000] = 2_000
    with pytest.raises(ValueError, match="node 2001 is in no tree"):
        check_trees("trees_", chain._replace(children=cut), n_columns=1)


@pytest.mark.parametrize("name", ["DPLAN", "DevNet", "DeepSAD", "REPEN", "PReNet", "DUA", "DPLANEnsemble"])
def test_a_non_finite_score_raises_with_the_row_and_is_no_alert(name, draft):
    made = draft(name)
    made.tensors["weights_"][:] = 3e38
    detector = dplan.load(made.signed())
    X = np.zeros((5, detector.n_features_in_))
    X[3:] = 1e6
    for method in (detector.anomaly_score, detector.predict, detector.decision_function, detector.percentile):
        with pytest.raises(
            NonFiniteScoreError, match=r"^row 1 has the score (inf|-inf|nan); the model is damaged"
        ):
            method(X)


def test_only_rows_that_overflow_are_named():
    X = np.random.default_rng(0).normal(size=(3_000, 3))
    detector = dplan.LogisticBaseline(random_state=0).fit(X, np.arange(3_000) < 10)
    detector.coef_[:] = 1e30
    X[:] = 0
    X[2_500] = 1e30
    with pytest.raises(NonFiniteScoreError, match=r"^row 2,501 has the score") as caught:
        detector.predict(X)
    assert (caught.value.row, caught.value.after(100).row) == (2_500, 2_600)


def test_members_without_trees_are_rejected_before_they_take_memory(draft):
    made = draft("DPLANEnsemble")
    for name in ("member_medians_", "member_scales_", "member_weights_"):
        made.tensors[name] = np.ones(2_000_000)
    made.tensors |= {key: tensor[:0] for key, tensor in made.tensors.items() if key.startswith("trees_.")}
    assert "trees_ has 0 trees, which do not match 1,999,997 tree agents" in refused(made)


def test_a_catboost_model_is_rejected(draft):
    made = draft("BoostedBaseline")
    made.description["parameters"]["engine"] = "catboost"
    assert "BoostedBaseline has no parameter 'engine'" in refused(made)


def test_messages_stay_on_one_line(draft, tmp_path):
    made = draft("DevNet")
    made.description["parameters"]["two\nlines\x1b[2J"] = 1
    assert r"DevNet has no parameter 'two\nlines\x1b[2J'" in refused(made)
    made.description.update(format=99, package="7\n" + 1_000 * "x")
    (tmp_path / "m.dplan").write_bytes(made.signed())
    with pytest.raises(ModelFileError) as caught:
        dplan.load(tmp_path / "m.dplan")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@on_linux
def test_many_neighbours_and_wide_networks_take_little_memory_to_score_and_to_explain(folder):
    """Against all background rows at once, it would be 770 MB for so wide a network, and more with more units."""
    originals = [d for d in read_originals(folder) if d.description["preparation"]]
    for name in ("DPLANEnsemble", "DevNet"):
        original = next(d for d in originals if d.description["detector"] == name)
        made = Draft(original.description, original.tensors)
        rng = np.random.default_rng(0)
        n_columns = made.description["n_features"]
        if name == "DevNet":
            made.tensors["layer_sizes_"] = np.array([n_columns, 300_000, 1])
            made.tensors["weights_"] = rng.normal(size=300_000 * (n_columns + 2) + 1).astype(np.float32)
        else:
            made.tensors["neighbours_"] = rng.normal(size=(1, 400_000, n_columns)).astype(np.float32)
        found = measured(made.signed())
        assert found["found"] == "scored"
        assert found["memory"] < 500 * 2**20


CTRL_C = """
import signal
import numpy as np
import dplan
from dplan._kernels.trees import Trees
N_TREES, N_INNER = 4_000, 1_000  # a chain each: a valid forest, but far larger than forests are
X = np.random.default_rng(0).random((1_000_000, 3))
detector = dplan.IForest(n_estimators=2, random_state=0).fit(X[:500])
n = 2 * N_INNER + 1
inner = np.arange(0, n - 1, 2)
chain = np.stack([np.arange(n)] * 2, axis=1)
chain[inner] = np.stack([inner + 1, inner + 2], axis=1)
roots = n * np.arange(N_TREES)
detector.trees_ = Trees(
    roots.astype(np.int32),
    np.full(N_TREES, N_INNER, dtype=np.int32),
    (roots[:, None, None] + chain).reshape(-1, 2).astype(np.int32),
    np.zeros(n * N_TREES, dtype=np.int32),
    np.full(n * N_TREES, -1, dtype=np.float32),
    np.ones(n * N_TREES),
)
signal.signal(signal.SIGINT, signal.default_int_handler)
print("scoring", flush=True)
detector.anomaly_score(X)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal that Windows does not have")
def test_ctrl_c_stops_scoring_with_a_large_model_at_once():
    """All rows would take most of an hour, so a process that ends did not wait for them."""
    with subprocess.Popen(
        [sys.executable, "-c", CTRL_C], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT
    ) as process:
        try:
            assert process.stdout.readline() == "scoring\n", process.stderr.read()
            time.sleep(0.5)  # in the midst of it
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=600)
        finally:
            process.kill()
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


@pytest.fixture(scope="module")
def table_model(folder):
    return next(d for d in read_originals(folder) if d.description["preparation"])


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        (
            "reading",
            7,
            "'reading' must be an encoding, a list of texts for missing values and a layout, but it is 7",
        ),
        ("reading", ["utf-8"], "'reading' must be"),
        ("reading", None, "'reading' must be"),
        ("reading", {"encoding": "utf-8"}, "'reading' must be"),
        ("reading", {"encoding": 7, "missing": []}, "'reading' must be"),
        ("reading", {"encoding": "utf-8", "missing": "NA"}, "'reading' must be"),
        ("reading", {"encoding": "utf-8", "missing": [None]}, "'reading' must be"),
        ("label", None, "'label' must be the name of a column, but it is None"),
        ("ids", "id", "'ids' must be a list of columns"),
        ("labels", {}, "'labels' must be numbers of rows by class"),
        ("labels", {"unlabelled": 290}, "a known row has a class that is not in the summary"),
        ("labels", {"unlabelled": 290, "fraud": True}, "'labels' must be"),
        ("rows", -1, "'rows' must be a number of rows, but it is -1"),
        ("dropped", {"note": 7}, "'dropped' must be reasons by column"),
        ("estimate", {"known": "many"}, "'estimate' must be numbers by name, or null"),
        ("label_values", {"anomaly": ["fraud"]}, "'label_values' must be lists of words"),
        ("label_values", {"normal": "ok"}, "'label_values' must be"),
        ("updates", [7], "'updates' must be a list of objects"),
        ("verdict_keys", [], "the verdict keys in the summary do not match the known rows"),
        ("known_names", ["one"], "the names in the summary do not match the known rows"),
    ],
)
def test_a_summary_of_another_form_is_refused_when_it_is_loaded(name, value, refused, table_model):
    crafted = Draft(table_model.description, table_model.tensors)
    crafted.description["summary"][name] = value
    with pytest.raises(ModelFileError, match=f"^the model is not a valid model file: .*{re.escape(refused)}"):
        dplan.load(crafted.signed())


@pytest.mark.parametrize("name", ["label", "labels", "rows", "ids", "verdict_keys"])
def test_a_summary_without_a_value_is_refused_when_it_is_loaded(name, table_model):
    crafted = Draft(table_model.description, table_model.tensors)
    del crafted.description["summary"][name]
    with pytest.raises(
        ModelFileError,
        match=f"^the model is not a valid model file: the summary cannot be used: '{name}' is missing$",
    ):
        dplan.load(crafted.signed())


def test_inspect_refuses_such_a_summary_too(table_model, tmp_path):
    crafted = Draft(table_model.description, table_model.tensors)
    crafted.description["summary"]["reading"] = 7
    (tmp_path / "m.dplan").write_bytes(crafted.signed())
    done = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.dplan")])
    assert done.exit_code == 1
    assert "'reading' must be" in done.stderr
