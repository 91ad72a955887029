"""Saving and loading: the same scores, damaged files are rejected, no code is executed."""

import hashlib
import json
import pickle
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import dplan
from dplan import ModelFileError
from dplan._kernels import perceptron
from dplan._kernels.product import rounds_once
from dplan.detectors import _saving
from dplan.persistence import model_file
from dplan.tables import TableModel
from tests.detectors.quick import QUICK
from tests.persistence.saved import SUMMARY, quick_model

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.dplan"))


@pytest.fixture(scope="module", params=["DPLAN", "DPLANEnsemble"])
def model(request):
    return quick_model(request.param)


def as_table_model(model):
    detector, preparer, X = model
    return TableModel(detector, preparer, X[20:], X[:10], np.ones(10, dtype=np.int64), SUMMARY)


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "model.dplan"
    as_table_model(model).save(path)
    return path


@pytest.mark.parametrize("n_checked", [0, 30])
@pytest.mark.parametrize("name", QUICK)
def test_every_detector_scores_the_same_after_loading(name, n_checked, tmp_path):
    detector, _, X = quick_model(name, n_checked=n_checked)
    detector.save(tmp_path / "model.dplan")
    again = dplan.load(tmp_path / "model.dplan")
    np.testing.assert_array_equal(again.anomaly_score(X), detector.anomaly_score(X))
    np.testing.assert_array_equal(again.predict(X), detector.predict(X))
    assert again.get_params() == detector.get_params()
    durations = {"seconds": [np.nan] * len(detector.history_["seconds"])}  # which are not stored
    np.testing.assert_equal(again.history_, detector.history_ | durations)  # NaN equals NaN here


def test_everything_in_the_file_comes_back(model, saved):
    detector, preparer, _ = model
    found = _saving.load(saved)
    assert found.preparation == json.loads(json.dumps(preparer.to_state()))
    assert found.summary == SUMMARY.to_json()
    assert found.package == dplan.__version__
    assert np.array_equal(found.detector.weights_, detector.weights_)
    assert found.detector.weights_.flags.writeable  # else every kernel would be compiled a second time


def test_feature_names_are_remembered_and_checked(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(np.random.default_rng(0).random((50, 2)), columns=["a", "b"])
    clone(QUICK["DPLAN"]).fit(frame, np.arange(50) < 5).save(tmp_path / "m.dplan")
    again = dplan.load(tmp_path / "m.dplan")
    with pytest.raises(ValueError, match="feature names should match"):
        again.anomaly_score(frame.rename(columns={"b": "c"}))


def test_the_same_model_gives_the_same_bytes(model, saved, tmp_path):
    as_table_model(model).save(tmp_path / "again.dplan")
    assert saved.read_bytes() == (tmp_path / "again.dplan").read_bytes()


def test_any_safetensors_reader_opens_it(model, saved):
    from safetensors.numpy import load_file

    tensors = load_file(saved)
    np.testing.assert_array_equal(tensors["weights_"], model[0].weights_)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_old_files_keep_loading(path):
    found = _saving.load(path)
    scores = found.detector.anomaly_score(found.arrays["rows"])
    np.testing.assert_allclose(scores, found.arrays["scores"], rtol=1e-5)
    assert found.preparation is not None


# Of the scores of the rows in each golden file, as little-endian float64.
SCORE_DIGESTS = {
    "boostedbaseline-format-1": "60066341e8d81efb",
    "dplan-format-1": "1c48e984b1334c15",
    "dplanensemble-format-1": "72bd2438f475338b",
    "dplanensemble-version-5-format-1": "8dbede9b25f6cbe7",
    "iforest-format-1": "607b03a1f88a3a99",
    "repen-format-1": "77681667ad20e7cd",
}


@pytest.mark.any_processor
@pytest.mark.skipif(not rounds_once(), reason="without fused multiply-add, the last bits differ")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_file_gives_the_same_scores_on_every_machine_to_the_last_bit(path):
    found = _saving.load(path)
    scores = found.detector.anomaly_score(found.arrays["rows"])
    assert hashlib.sha256(scores.astype("<f8").tobytes()).hexdigest()[:16] == SCORE_DIGESTS[path.stem]


def test_there_are_golden_files_of_the_current_format():
    assert len([path for path in GOLDEN if f"format-{model_file.FORMAT}" in path.name]) >= 5


def test_500_truncations_are_rejected(saved, tmp_path):
    whole, broken = saved.read_bytes(), tmp_path / "broken.dplan"
    for length in np.linspace(0, len(whole) - 1, 500).astype(int):
        broken.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            dplan.load(broken)
    broken.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError):
        dplan.load(broken)


def test_2000_flipped_bytes_are_rejected(saved, tmp_path):
    whole, broken = saved.read_bytes(), tmp_path / "broken.dplan"
    rng = np.random.default_rng(0)
    places = np.concatenate([np.arange(200), rng.integers(0, len(whole), 1800)])
    for place, change in zip(places, rng.integers(1, 256, 2000), strict=True):
        flipped = bytearray(whole)
        flipped[place] ^= int(change)
        broken.write_bytes(flipped)
        with pytest.raises(ModelFileError):
            dplan.load(broken)


class Bomb:
    def __reduce__(self):
        return (Path.write_text, (Path("pickle-was-run"), "x"))


def test_a_pickle_is_rejected_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "m.dplan").write_bytes(pickle.dumps(Bomb(), protocol))
        with pytest.raises(ModelFileError, match="not a dplan model file"):
            dplan.load("m.dplan")
    assert not (tmp_path / "pickle-was-run").exists()


def test_a_zip_bomb_is_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.dplan", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("weights", b"\0" * 50_000_000)
    with pytest.raises(ModelFileError, match="archive"):
        dplan.load(tmp_path / "m.dplan")


def forged(path, header, data=b""):
    """Write a file with any header and a valid checksum."""
    text = b'{"__metadata__":{"sha256":"' + b"0" * 64 + b'"' + header
    content = bytearray(len(text).to_bytes(8, "little") + text + data)
    content[model_file._DIGEST] = hashlib.sha256(content).hexdigest().encode()
    path.write_bytes(content)


HUGE = [
    b'},"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}',
    b'},"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}',
    b'},"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}',
    b'},"w":{"dtype":"F32","shape":[1e3],"data_offsets":[0,4000]}}',
    b'},"w":{"dtype":"O","shape":[1],"data_offsets":[0,8]}}',
    b'},"w":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}',
    b',"n":' + b"9" * 5000 + b"}}",
    b',"n":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b',"n":NaN}}',
    b'},"__metadata__":{}}',
    b"}",
]


@pytest.mark.parametrize("header", HUGE, ids=[f"{header[:40]!r}" for header in HUGE])
def test_huge_or_invalid_sizes_are_rejected_without_allocating(header, tmp_path):
    forged(tmp_path / "m.dplan", header)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError):
        dplan.load(tmp_path / "m.dplan")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@pytest.mark.parametrize("lengths", [[2] * 9, [0] * 1_000_000])
def test_many_dimensions_are_rejected_before_they_are_multiplied(lengths, tmp_path, monkeypatch):
    monkeypatch.setattr(model_file.math, "prod", lambda _: pytest.fail("multiplied"))
    entry = {"dtype": "F32", "shape": lengths, "data_offsets": [0, 2048]}
    path = tmp_path / "m.dplan"
    forged(path, b'},"a":' + json.dumps(entry).encode() + b"}", bytes(2048))
    with pytest.raises(ModelFileError, match=f"'a' has {len(lengths):,} dimensions, the limit is 8"):
        model_file.read(path)


def test_a_huge_header_length_and_a_huge_sparse_file_are_rejected(tmp_path):
    path = tmp_path / "m.dplan"
    for length, why in ((2**63, "at most"), (10**8, "at most"), (10**6, "longer than the file")):
        path.write_bytes(length.to_bytes(8, "little") + b'{"__metadata__":{"sha256":"' + b"0" * 100)
        with pytest.raises(ModelFileError, match=why):
            dplan.load(path)
    with path.open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(ModelFileError, match="at most"):
        dplan.load(path)


def changed(path, change):
    """Rewrite a model file with a valid checksum, after changing its description or tensors."""
    tensors, metadata, _ = model_file._unpacked(path)
    description = json.loads(metadata["dplan"])
    tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    change(description, tensors)
    path.write_bytes(model_file._packed(tensors, {"dplan": json.dumps(description)}))


INVALID = {
    "another class": lambda d, t: d.update(detector="os.system"),
    "class is a list": lambda d, t: d.update(detector=["DPLAN"]),
    "unknown parameter": lambda d, t: d["parameters"].update(spin=1),
    "invalid parameter": lambda d, t: d["parameters"].update(n_steps=-1),
    "wrong width": lambda d, t: d.update(n_features=3),
    "layers too large": lambda d, t: t["layer_sizes_"].__setitem__(1, 2**30),
    "layers negative": lambda d, t: t["layer_sizes_"].__setitem__(1, -20),
    "too few weights": lambda d, t: t.update(weights_=t["weights_"][:-1]),
    "weights of another type": lambda d, t: t.update(weights_=t["weights_"].astype(float)),
    "weights not finite": lambda d, t: t["weights_"].__setitem__(0, np.nan),
    "no offset": lambda d, t: d["numbers"].pop("offset_"),
    "offset as text": lambda d, t: d["numbers"].update(offset_="0"),
    "preparation of another width": lambda d, t: d["preparation"]["columns"].pop(),
    "no preparation": lambda d, t: d.update(preparation=7),
    "history without lists": lambda d, t: d.update(history={"reward": 3}),
    "format 0": lambda d, t: d.update(format=0),
    "description a list": lambda d, t: d.clear(),
}


@pytest.mark.parametrize("change", INVALID)
def test_invalid_contents_with_a_valid_checksum_are_rejected(change, saved):
    changed(saved, INVALID[change])
    with pytest.raises(ModelFileError, match="not a valid model file"):
        dplan.load(saved)


def put(key, place, value):
    return lambda d, t: t[key].__setitem__(place, value)


def one_more(tensors, layer):
    sizes = tensors["layer_sizes_"].copy()
    sizes[layer] += 1
    tensors.update(layer_sizes_=sizes, weights_=np.zeros(perceptron.n_parameters(sizes), dtype=np.float32))


INVALID_ENSEMBLES = {
    "a member more": lambda d, t: t.update({key: np.append(t[key], 1.0) for key in MEMBER_ARRAYS}),
    "a weight less": lambda d, t: t.update(member_weights_=t["member_weights_"][1:]),
    "a scale of 0": put("member_scales_", 1, 0.0),
    "a negative scale": put("member_scales_", 0, -1.0),
    "a scale that is NaN": put("member_scales_", 0, np.nan),
    "medians of another type": lambda d, t: t.update(member_medians_=t["member_medians_"].astype(np.float32)),
    "a hidden unit that is no agent's": lambda d, t: one_more(t, 1),
    "kinds of fewer members": lambda d, t: t.update(member_kinds_=t["member_kinds_"][:-1]),
    "a kind that does not exist": put("member_kinds_", 0, 6),
    "weights of fewer members to ask with": lambda d, t: t.update(asking_weights_=t["asking_weights_"][:-1]),
    "a bend too few": lambda d, t: t.update(bends_=t["bends_"][:-1]),
    "a bend that is NaN": put("bends_", 0, np.nan),
    "an output that is no agent's": lambda d, t: one_more(t, 2),
    "a forest without trees": lambda d, t: t.update(
        {f"forest_.{k}": t[f"forest_.{k}"][:0] for k in ("roots", "depths")}
    ),
    "no neighbours": lambda d, t: t.update(neighbours_=t["neighbours_"][:, :0]),
    "neighbours of other columns": lambda d, t: t.update(neighbours_=t["neighbours_"][:, :, 1:].copy()),
    "column quantiles of other columns": lambda d, t: t.update(
        column_quantiles_=t["column_quantiles_"][:, 1:].copy()
    ),
    "no column quantiles": lambda d, t: t.update(column_quantiles_=t["column_quantiles_"][:0]),
    "neighbours in no samples": lambda d, t: t.update(neighbours_=t["neighbours_"][0]),
    "quantiles out of order": put("score_quantiles_", 500, 1e6),
    "too few quantiles": lambda d, t: t.update(score_quantiles_=t["score_quantiles_"][:-1]),
    "no path length": lambda d, t: d["numbers"].update(average_path_length_=0),
    "a negative path length": lambda d, t: d["numbers"].update(average_path_length_=-1.5),
}
MEMBER_ARRAYS = ("member_medians_", "member_scales_", "member_weights_")


@pytest.mark.parametrize("change", INVALID_ENSEMBLES)
def test_invalid_ensembles_with_a_valid_checksum_are_rejected(change, tmp_path):
    path = tmp_path / "m.dplan"
    detector, _, X = quick_model("DPLANEnsemble")
    detector.set_params(n_agents=2).fit(X, np.arange(len(X)) < 10).save(path)
    dplan.load(path)
    changed(path, INVALID_ENSEMBLES[change])
    with pytest.raises(ModelFileError, match="not a valid model file"):
        dplan.load(path)


def test_an_ensemble_is_complete_after_loading(tmp_path):
    detector, _, X = quick_model("DPLANEnsemble")
    detector.save(tmp_path / "m.dplan")
    again = dplan.load(tmp_path / "m.dplan")
    np.testing.assert_array_equal(again.uncertainty(X), detector.uncertainty(X))
    np.testing.assert_array_equal(again.percentile(X), detector.percentile(X))
    again.save(tmp_path / "again.dplan")
    assert (tmp_path / "again.dplan").read_bytes() == (tmp_path / "m.dplan").read_bytes()


@pytest.mark.parametrize("name", ["IForest", "BoostedBaseline", "DPLANEnsemble"])
def test_trees_with_invalid_indices_are_rejected(name, tmp_path):
    path = tmp_path / "m.dplan"
    for key, place, value, why in [
        ("children", (0, 0), 10**6, "node 0 has invalid children"),
        ("children", (0, 1), -1, "node 0 has invalid children"),
        ("children", (1, 0), 0, "node 1 has invalid children"),
        ("features", 0, 99, "node 0 tests a column that does not exist"),
        ("features", 0, -1, "node 0 tests a column that does not exist"),
        ("roots", 0, -5, "the root of tree 0 does not exist"),
        ("depths", 0, 2**30, "tree 0 has a depth of ., but the file says 1,073,741,824"),
        ("depths", 0, 0, "tree 0 has a depth of ., but the file says 0"),
    ]:
        quick_model(name)[0].save(path)
        changed(
            path, lambda d, t, key=key, place=place, value=value: t[f"trees_.{key}"].__setitem__(place, value)
        )
        with pytest.raises(ModelFileError, match=why):
            dplan.load(path)


@pytest.mark.parametrize("name", ["IForest", "BoostedBaseline", "DPLANEnsemble"])
def test_nodes_with_two_parents_are_rejected(name, tmp_path):
    path = tmp_path / "m.dplan"
    for forge in (
        lambda d, t: t["trees_.roots"].__setitem__(1, t["trees_.roots"][0]),
        lambda d, t: t["trees_.roots"].__setitem__(1, t["trees_.children"][0, 1]),
        lambda d, t: t["trees_.children"].__setitem__((0, 1), t["trees_.children"][0, 0]),
    ):
        quick_model(name)[0].save(path)
        changed(path, forge)
        with pytest.raises(ModelFileError, match=r"node \d+ has two parents"):
            dplan.load(path)


def test_a_newer_format_says_what_to_do(saved):
    changed(saved, lambda d, t: d.update(format=99, package="7.0"))
    with pytest.raises(ModelFileError, match=r"dplan 7.0 \(format 99\).*Upgrade dplan"):
        dplan.load(saved)


def test_what_cannot_be_saved_says_why(tmp_path):
    class Own(dplan.DPLAN):
        pass

    with pytest.raises(TypeError, match="only registered detectors"):
        Own().save(tmp_path / "m")
    with pytest.raises(ValueError, match="not fitted"):
        dplan.DPLAN().save(tmp_path / "m")
    with pytest.raises(FileNotFoundError):
        dplan.load(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_save_leaves_the_old_file_and_nothing_else(model, saved):
    old = saved.read_bytes()
    with pytest.raises(TypeError):
        _saving.save(saved, model[0], arrays={"odd": np.array(["text"])})
    assert saved.read_bytes() == old
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


KILLED_WHILE_SAVING = """
import itertools, os, random, signal, sys, time
from dplan.detectors import _saving
folder = sys.argv[1]
models = [_saving.load(f"{folder}/{name}.dplan") for name in "ab"]
weights = [model.detector.weights_.tobytes() for model in models]
random.seed(0)
kept = []
for trial in range(50):
    saved, saving = os.pipe()
    child = os.fork()
    if child == 0:
        for model in itertools.cycle(models):
            model.detector.save(f"{folder}/model.dplan")
            os.write(saving, b".")
    for _ in range(1 + trial % 4):  # so many saves are over
        os.read(saved, 1)
    time.sleep(random.uniform(0, 0.02))  # at some moment of a later one
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    kept.append(weights.index(_saving.load(f"{folder}/model.dplan").detector.weights_.tobytes()))
print(*kept)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL, which Windows does not have")
def test_50_kills_while_saving_leave_the_old_or_the_new_file(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        quick_model(seed=seed)[0].save(tmp_path / f"{name}.dplan")
    run = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert set(run.stdout.split()) == {"0", "1"}
    assert len(run.stdout.split()) == 50
