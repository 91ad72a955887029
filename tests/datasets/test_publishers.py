"""The publishers' files: a table written out in a publisher's form is read as it was."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.datasets import load
from dplan.datasets.publishers import (
    _ANNTHYROID_CLASSES,
    _ANNTHYROID_COLUMNS,
    _ANNTHYROID_FLOATS,
    _COVERTYPE_BYTES,
    _COVERTYPE_MEASURES,
    _UNSW_COLUMNS,
    _UNSW_FLOATS,
    _UNSW_TEXTS,
    RAW_FILES,
    find_files,
    missing_raw_files,
    read_raw,
)

ACTIVITIES = ["WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"]


def made_up(types: dict[str, type[pl.DataType]], n_rows: int) -> pl.DataFrame:
    """Return a table with columns of these types."""
    rng = np.random.default_rng(0)
    values = {pl.String: np.array(["-", "tcp", "Normal"]), pl.Float64: np.round(rng.random(50), 3)}
    drawn = {name: rng.choice(values.get(kind, np.arange(100)), 997) for name, kind in types.items()}
    return pl.DataFrame({name: np.resize(column, n_rows) for name, column in drawn.items()}, schema=types)


@pytest.fixture(scope="module")
def unsw_partition() -> pl.DataFrame:
    counts = [f"count_{j}" for j in range(_UNSW_COLUMNS - len(_UNSW_FLOATS) - len(_UNSW_TEXTS) - 2)]
    kinds = {
        pl.Int64: ["id", "label", *counts],
        pl.Float64: sorted(_UNSW_FLOATS),
        pl.String: sorted(_UNSW_TEXTS),
    }
    table = made_up({name: kind for kind, names in kinds.items() for name in names}, 82_332)
    classes = pl.Series(np.repeat(["Normal", "Exploits"], [37_000, 45_332]))
    return table.with_columns(attack_cat=classes, partition=pl.lit("testing"))


@pytest.fixture(scope="module")
def annthyroid() -> pl.DataFrame:
    types = {name: pl.Float64 if name in _ANNTHYROID_FLOATS else pl.Int8 for name in _ANNTHYROID_COLUMNS}
    numbers = made_up(types, 7_200).with_columns(pl.col("class") % 3 + 1)
    return numbers.with_columns(pl.col("class").replace_strict(_ANNTHYROID_CLASSES, return_dtype=pl.String))


@pytest.fixture(scope="module")
def har() -> pl.DataFrame:
    table = made_up({f"tBodyAcc-mean()-{j}": pl.Float64 for j in range(8)}, 10_299)
    return table.cast(pl.Float32).with_columns(activity=pl.Series(np.resize(ACTIVITIES, table.height)))


@pytest.fixture(scope="module")
def covertype() -> pl.DataFrame:
    names = [*(f"Wilderness_Area_{i}" for i in range(4)), *(f"Soil_Type_{i}" for i in range(40))]
    types = {name: pl.UInt8 if name in _COVERTYPE_BYTES else pl.Int16 for name in _COVERTYPE_MEASURES}
    return made_up({**types, **dict.fromkeys(names, pl.UInt8), "cover_type": pl.Int8}, 581_012)


@pytest.fixture(scope="module")
def unsw_csv(unsw_partition: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    unsw_partition.drop("partition").write_csv(buffer)
    return b"\xef\xbb\xbf" + buffer.getvalue().replace(b"\n", b"\r\n")  # as the official files have it


def annthyroid_texts(table: pl.DataFrame) -> tuple[bytes, bytes]:
    numbers = table.with_columns(
        pl.col("class").replace_strict({"hypothyroid": 1, "subnormal": 2, "normal": 3}, return_dtype=pl.Int8)
    )
    # The UCI files end each line with two blanks.
    lines = [" ".join(f"{value:g}" for value in row) + "  \n" for row in numbers.rows()]
    return "".join(lines[:3772]).encode(), "".join(lines[3772:]).encode()


def har_files(table: pl.DataFrame) -> dict[str, bytes]:
    features = table.drop("activity")
    codes = table["activity"].replace_strict({name: i for i, name in enumerate(ACTIVITIES, 1)}).to_list()
    lines = ["".join(f" {value: .7e}" for value in row) for row in features.rows()]
    return {
        "features.txt": "".join(f"{i} {name}\n" for i, name in enumerate(features.columns, 1)).encode(),
        "activity_labels.txt": "".join(f"{i} {name}\n" for i, name in enumerate(ACTIVITIES, 1)).encode(),
        "train/X_train.txt": "\n".join(lines[:7352]).encode(),
        "train/y_train.txt": "\n".join(map(str, codes[:7352])).encode(),
        "test/X_test.txt": "\n".join(lines[7352:]).encode(),
        "test/y_test.txt": "\n".join(map(str, codes[7352:])).encode(),
    }


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.mark.parametrize("file", ["UNSW_NB15_testing-set.csv", "UNSW_NB15_training-set.csv.gz"])
def test_unsw_partition_as_official_csv(file, tmp_path, unsw_csv, unsw_partition):
    # Under the other partition's name too: it is its rows that tell.
    (tmp_path / file).write_bytes(gzip.compress(unsw_csv, 1) if file.endswith(".gz") else unsw_csv)
    table = read_raw("unsw_nb15", tmp_path)
    assert table.columns == unsw_partition.columns
    assert_frame_equal(table.cast(dict(unsw_partition.schema)), unsw_partition)


def test_unsw_one_partition_is_reported_as_partial(tmp_path, unsw_csv):
    (tmp_path / "UNSW_NB15_testing-set.csv").write_bytes(unsw_csv)
    loaded = load("unsw_nb15", home=tmp_path)
    assert loaded.features.width == 42
    assert loaded.counts()["normal"] == 37_000
    assert "class normal: 37,000 of 93,000 rows" in loaded.partial


def test_unsw_same_partition_twice_is_refused(tmp_path, unsw_csv):
    for file in RAW_FILES["unsw_nb15"]:
        (tmp_path / file).write_bytes(unsw_csv)
    with pytest.raises(ValueError, match="is the testing partition, and so is another file"):
        read_raw("unsw_nb15", tmp_path)


def test_unsw_cut_short_is_refused(tmp_path, unsw_csv):
    cut = unsw_csv[: unsw_csv.rindex(b"\r\n", 0, len(unsw_csv) // 2)]
    (tmp_path / "UNSW_NB15_testing-set.csv").write_bytes(cut)
    with pytest.raises(ValueError, match=r"testing-set.csv has [\d,]+ rows, .*truncated"):
        read_raw("unsw_nb15", tmp_path)


def test_unsw_other_edition_is_refused(tmp_path):
    (tmp_path / "UNSW_NB15_testing-set.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="has 2 columns instead of 45"):
        read_raw("unsw_nb15", tmp_path)


def test_annthyroid_as_uci_texts(tmp_path, annthyroid):
    train, test = annthyroid_texts(annthyroid)
    write_files(tmp_path, {"ann-train.data": train, "ann-test.data": test})
    assert_frame_equal(read_raw("annthyroid", tmp_path), annthyroid)


def test_annthyroid_in_the_archive_of_uci(tmp_path, annthyroid):
    train, test = annthyroid_texts(annthyroid)
    with zipfile.ZipFile(tmp_path / "thyroid+disease.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ann-train.data", train)
        archive.writestr("ann-test.data", test)
        archive.writestr("ann-Readme", "not data")
    assert_frame_equal(read_raw("annthyroid", tmp_path), annthyroid)


def test_har_as_its_folder(tmp_path, har):
    write_files(tmp_path / "UCI HAR Dataset", har_files(har))
    assert_frame_equal(read_raw("har", tmp_path), har)


def test_har_in_the_archive_that_is_in_the_archive_of_uci(tmp_path, har):
    with zipfile.ZipFile(tmp_path / "UCI HAR Dataset.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in har_files(har).items():
            archive.writestr(f"UCI HAR Dataset/{name}", data)
            archive.writestr(f"__MACOSX/UCI HAR Dataset/._{name.rsplit('/', 1)[-1]}", b"\0")
    assert_frame_equal(read_raw("har", tmp_path), har)


def test_har_repeated_feature_names_are_numbered(tmp_path, har):
    files = har_files(har.select(pl.nth(range(3)), "activity"))
    files["features.txt"] = b"1 band()-1,8\n2 band()-1,8\n3 band()-1,8\n"
    write_files(tmp_path, files)
    assert read_raw("har", tmp_path).columns == ["band()-1,8", "band()-1,8 #2", "band()-1,8 #3", "activity"]


@pytest.fixture(scope="module")
def covtype_gz(covertype: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    covertype.write_csv(buffer, include_header=False)
    return gzip.compress(buffer.getvalue(), 1)


def test_covertype_as_data_gz(tmp_path, covertype, covtype_gz):
    (tmp_path / "covtype.data.gz").write_bytes(covtype_gz)
    assert_frame_equal(read_raw("covertype", tmp_path), covertype)


def test_damaged_gzip_is_refused(tmp_path, covtype_gz):
    (tmp_path / "covtype.data.gz").write_bytes(covtype_gz[: len(covtype_gz) // 2])
    with pytest.raises(ValueError, match=r"covtype\.data\.gz is damaged .*download it again"):
        read_raw("covertype", tmp_path)


def test_ragged_line_is_named(tmp_path):
    write_files(tmp_path, {"ann-train.data": b"0.73 0 1\n", "ann-test.data": b""})
    with pytest.raises(ValueError, match=r"ann-train\.data, line 1: 3 values instead of 22"):
        read_raw("annthyroid", tmp_path)


def test_missing_file_is_named(tmp_path):
    (tmp_path / "ann-train.data").write_text("")
    assert missing_raw_files("annthyroid", tmp_path) == ["ann-test.data"]
    with pytest.raises(FileNotFoundError, match=r"missing files of annthyroid in .*: ann-test\.data"):
        read_raw("annthyroid", tmp_path)


def test_a_plain_file_goes_before_an_archived_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("covtype.data", b"archived")
    (tmp_path / "covtype.data").write_bytes(b"plain")
    assert find_files(tmp_path, ["covtype.data"])["covtype.data"].read() == b"plain"
    (tmp_path / "covtype.data").unlink()
    assert find_files(tmp_path, ["covtype.data"])["covtype.data"].read() == b"archived"


def test_a_broken_zip_beside_the_files_does_no_harm(tmp_path):
    (tmp_path / "half.zip").write_bytes(b"PK\x03\x04 half of it")
    assert missing_raw_files("covertype", tmp_path) == ["covtype.data"]


def encrypted(archive: bytes) -> bytes:
    """Set the bit that says that members are encrypted, in the local and in the central headers."""
    data = bytearray(archive)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(mark)
        while start >= 0:
            data[start + place] |= 1
            start = data.find(mark, start + 4)
    return bytes(data)


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_an_encrypted_archive_is_one_line(tmp_path):
    (tmp_path / "covertype.zip").write_bytes(encrypted(zipped(**{"covtype.data": b"1,2,3\n" * 100})))
    with pytest.raises(ValueError, match=r"^.*covtype\.data is encrypted: extract the archive first$"):
        read_raw("covertype", tmp_path)


def test_a_damaged_member_or_unknown_compression_is_one_line(tmp_path):
    whole = zipped(**{"covtype.data": bytes(range(256)) * 50})
    start = 30 + len("covtype.data")
    (tmp_path / "covertype.zip").write_bytes(whole[:start] + b"\xff" * 20 + whole[start + 20 :])
    with pytest.raises(ValueError, match=r"covtype\.data is damaged .*; delete it and download it again"):
        read_raw("covertype", tmp_path)
    place = whole.find(b"PK\x01\x02") + 10
    (tmp_path / "covertype.zip").write_bytes(
        whole[:8] + b"\x63\x00" + whole[10:place] + b"\x63\x00" + whole[place + 2 :]
    )
    with pytest.raises(ValueError, match=r"covtype\.data is damaged .*; delete it and download it again"):
        read_raw("covertype", tmp_path)
