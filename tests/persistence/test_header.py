"""What a model file claims about itself, under a valid digest: each lie is refused for its own reason."""

import hashlib
import json
import os

import numpy as np
import pytest

from dplan._kernels.trees import Trees
from dplan.detectors._fields import check_trees
from dplan.exceptions import ModelFileError
from dplan.persistence import model_file

DESCRIPTION = '{"format": 1, "package": "0"}'


def signed(header, data=b"\0" * 8, description=DESCRIPTION):
    """Return a file with these entries of the header, as JSON text, and the digest that it must have."""
    metadata = json.dumps({"sha256": "0" * 64, "dplan": description}, separators=(",", ":")).encode()
    text = b'{"__metadata__":' + metadata + b"".join(b"," + entry for entry in header) + b"}"
    content = bytearray(len(text).to_bytes(8, "little") + text + data)
    content[model_file._DIGEST] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def entry(name="x", dtype="F32", shape=(2,), offsets=(0, 8)):
    return json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": offsets}})[1:-1].encode()


def test_a_file_that_tells_the_truth_is_read():
    assert model_file.read(signed([entry()])).tensors["x"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("header", "data", "description", "problem"),
    [
        ([entry()], b"\0" * 9, DESCRIPTION, "1 trailing bytes"),
        ([], b"\0" * 8, DESCRIPTION, "8 trailing bytes"),
        ([entry(shape=[3], offsets=[0, 12])], b"\0" * 8, DESCRIPTION, "tensor 'x' has invalid offsets"),
        ([entry(shape=[9], offsets=[0, 36])], b"\0" * 8, DESCRIPTION, "tensor 'x' has the invalid shape"),
        ([entry(shape=[0, 10**30], offsets=[0, 0])], b"\0" * 8, DESCRIPTION, "tensor 'x' has the invalid shape"),
        ([entry(shape=[-1, -2])], b"\0" * 8, DESCRIPTION, "tensor 'x' has the invalid shape"),
        ([entry(offsets=[8, 16])], b"\0" * 16, DESCRIPTION, "tensor 'x' has invalid offsets"),
        ([entry(shape=[1] * 9)], b"\0" * 8, DESCRIPTION, "tensor 'x' has 9 dimensions"),
        ([entry(dtype="F16", shape=[4])], b"\0" * 8, DESCRIPTION, "unsupported type F16"),
        ([entry(), entry()], b"\0" * 8, DESCRIPTION, "duplicate name"),
        ([entry()], b"\0" * 8, '{"format": 1, "package": "0", "format": 1}', "duplicate name"),
        ([entry()], b"\0" * 8, '{"format": 1, "package": "\\ud800"}', "surrogates not allowed"),
        ([entry().replace(b'"x"', b'"\xff"')], b"\0" * 8, DESCRIPTION, "can't decode byte 0xff"),
        ([entry().replace(b'"x"', b'"\\udfff"')], b"\0" * 8, DESCRIPTION, "surrogates not allowed"),
        ([entry()], b"\0" * 8, '{"format": 1, "package": NaN}', "NaN is not allowed"),
        ([entry()], b"\0" * 8, "[1]", "the description is not a JSON object"),
    ],
)  # fmt: skip
def test_a_lie_in_the_header_is_refused_for_what_it_is(header, data, description, problem):
    with pytest.raises(ModelFileError) as caught:
        model_file.read(signed(header, data, description))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_just_within_the_limits_is_read():
    assert model_file.read(signed([], b"")).tensors == {}
    assert model_file.read(signed([entry(shape=[2] + [1] * 7)])).tensors["x"].ndim == 8
    nothing = entry("y", shape=[0, 8], offsets=[8, 8])
    assert model_file.read(signed([entry(), nothing])).tensors["y"].shape == (0, 8)


def test_a_header_has_at_most_64_mebibytes():
    for length, problem in (
        (2**26, "header is longer than the file"),
        (2**26 + 1, "67,108,865 bytes of header"),
    ):
        with pytest.raises(ModelFileError, match=problem):
            model_file.read(length.to_bytes(8, "little") + signed([entry()])[8:])


def test_arrays_begin_at_multiples_of_eight_bytes():
    for length in range(1, 10):
        content = model_file.packed({"name": "x" * length}, {"x": np.zeros(2)})
        assert int.from_bytes(content[:8], "little") % 8 == 0
        assert model_file.read(content).description["name"] == "x" * length


def test_what_is_not_json_is_not_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        model_file.packed({"name": float("nan")}, {})


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "m.dplan").write_bytes(signed([entry()]))
    assert model_file.read_bytes(tmp_path / "m.dplan") == signed([entry()])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises((ModelFileError, IsADirectoryError), match=name):
            model_file.read_bytes(tmp_path / name)
    with pytest.raises(ModelFileError, match="pipe is not a regular file"):
        model_file.read_bytes(tmp_path / "pipe")


def trees(roots, depths, children, features):
    n = len(children)
    return Trees(
        np.array(roots, dtype=np.int32),
        np.array(depths, dtype=np.int32),
        np.array(children, dtype=np.int32),
        np.array(features, dtype=np.int32),
        np.zeros(n, dtype=np.float32),
        np.zeros(n),
    )


def test_a_tree_within_bounds_is_one():
    check_trees("trees_", trees([0], [1], [[1, 2], [1, 1], [2, 2]], [1, 0, 0]), n_columns=2)


@pytest.mark.parametrize(
    ("forest", "problem"),
    [
        # Each is the first index that does not exist, in a file that is right in every other way.
        (trees([0], [1], [[1, 2], [1, 1], [2, 2]], [2, 0, 0]), "node 0 tests a column that does not exist"),
        (trees([0], [1], [[1, 2], [1, 1], [2, 2]], [-1, 0, 0]), "node 0 tests a column that does not exist"),
        (trees([0], [1], [[1, 2], [1, 1]], [0, 0]), "node 0 has invalid children"),
        (trees([0, 1], [0, 0], [[0, 0]], [0]), "the root of tree 1 does not exist"),
        (trees([-1], [0], [[0, 0]], [0]), "the root of tree 0 does not exist"),
        (trees([0], [1], [[1, 1], [1, 1]], [0, 0]), "node 1 has two parents"),
        (trees([0], [0], [[0, 0], [1, 1]], [0, 0]), "node 1 is in no tree"),
        (trees([0], [2], [[1, 2], [1, 1], [2, 2]], [0, 0, 0]), "tree 0 has a depth of 1, but the file says 2"),
    ],
)  # fmt: skip
def test_a_tree_out_of_bounds_never_reaches_a_kernel(forest, problem):
    with pytest.raises(ValueError, match=problem):
        check_trees("trees_", forest, n_columns=2)
