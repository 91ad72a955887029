"""`load` of a data set that is not there: from a real local HTTP server, which may refuse or break off."""

import gc
import io
import sys
import threading
import warnings
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.datasets import load, loading
from dplan.datasets.publishers import _ANNTHYROID_COLUMNS as COLUMNS
from dplan.datasets.publishers import _ANNTHYROID_FLOATS as FLOATS
from dplan.datasets.registry import CATALOG
from dplan.exceptions import DownloadError


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; of the next answers, some are cut short."""

    def do_GET(self):
        self.server.requests.append(self.path)
        super().do_GET()

    def copyfile(self, source, outputfile):
        n_bytes = self.server.break_off_after.pop(0) if self.server.break_off_after else None
        outputfile.write(source.read(n_bytes))

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A publisher that has a folder of archives, and is asked for Annthyroid and HAR."""
    folder = tmp_path / "published"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    server.folder, server.requests, server.break_off_after = folder, [], []
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    for name in ("annthyroid", "har"):
        source = CATALOG[name]
        url = f"http://127.0.0.1:{server.server_port}/{source.archive.rpartition('/')[2]}"
        monkeypatch.setitem(CATALOG, name, replace(source, archive=url))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between two attempts
    yield server
    server.shutdown()
    server.server_close()
    with warnings.catch_warnings(action="ignore"):  # pooch does not close the connection of a failed download
        gc.collect()


@pytest.fixture(scope="module")
def thyroid() -> pl.DataFrame:
    """A table of Annthyroid's form and class counts, of random values."""
    rng = np.random.default_rng(0)
    columns = {
        name: rng.integers(1, 600, size=7200) / 1000 if name in FLOATS else rng.integers(0, 2, size=7200)
        for name in COLUMNS[:-1]
    }
    classes = np.repeat(["hypothyroid", "subnormal", "normal"], [166, 368, 6666])
    schema = {name: pl.Float64 if name in FLOATS else pl.Int8 for name in COLUMNS[:-1]} | {"class": pl.String}
    return pl.DataFrame({**columns, "class": rng.permutation(classes)}, schema=schema)


def archive(table: pl.DataFrame, n_test: int = 3428) -> bytes:
    numbers = table.with_columns(
        pl.col("class").replace_strict({"hypothyroid": 1, "subnormal": 2, "normal": 3}, return_dtype=pl.Int8)
    )
    lines = [" ".join(f"{value:g}" for value in row) + "\n" for row in numbers.rows()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ann-train.data", "".join(lines[:3772]))
        archive.writestr("ann-test.data", "".join(lines[3772 : 3772 + n_test]))
    return buffer.getvalue()


def test_it_is_downloaded_once_and_then_there(thyroid, server, tmp_path):
    (server.folder / "thyroid+disease.zip").write_bytes(archive(thyroid))
    home = tmp_path / "home"
    found = load("annthyroid", home)
    assert found.counts() == {"normal": 6666, "hypothyroid": 166, "subnormal": 368}
    assert not found.partial
    assert [path.name for path in home.iterdir()] == ["annthyroid.parquet"]
    assert_frame_equal(pl.read_parquet(home / "annthyroid.parquet"), thyroid)
    assert load("annthyroid", home) is found
    assert server.requests == ["/thyroid+disease.zip"]


def test_a_download_that_breaks_off_is_tried_again(thyroid, server, tmp_path):
    (server.folder / "thyroid+disease.zip").write_bytes(archive(thyroid))
    server.break_off_after = [1000, 30_000]
    assert load("annthyroid", tmp_path / "home").features.height == 7200
    assert len(server.requests) == 3


def test_a_download_that_always_breaks_off_leaves_nothing(thyroid, server, tmp_path):
    (server.folder / "thyroid+disease.zip").write_bytes(archive(thyroid))
    server.break_off_after = [1000] * 10
    with pytest.raises(DownloadError, match=r"^annthyroid could not be downloaded from http://127.*zip: "):
        load("annthyroid", tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_an_archive_within_an_archive_as_uci_has_it(server, tmp_path):
    """What is in it is not HAR, but it is found and read."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name in ("features.txt", "activity_labels.txt", "X_train.txt", "y_train.txt", "X_test.txt"):
            archive.writestr(f"UCI HAR Dataset/{name}", "1 one\n")
    with zipfile.ZipFile(server.folder / "human+activity+recognition+using+smartphones.zip", "w") as archive:
        archive.writestr("UCI HAR Dataset.zip", inner.getvalue())
    with pytest.raises(DownloadError, match=r"missing files of har in .*: y_test\.txt"):
        load("har", tmp_path)


@pytest.mark.parametrize("contents", ["truncated", "no archive"])
def test_something_else_is_refused_and_leaves_nothing(contents, thyroid, server, tmp_path):
    data = archive(thyroid, n_test=3000) if contents == "truncated" else b"<html>moved</html>"
    (server.folder / "thyroid+disease.zip").write_bytes(data)
    message = r"ann-test\.data has 3,000 rows, not 3,428" if contents == "truncated" else "not a zip file"
    with pytest.raises(DownloadError, match=message):
        load("annthyroid", tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_what_is_not_found_says_what_to_do_by_hand(server, tmp_path):
    with pytest.raises(DownloadError, match="404") as caught:
        load("annthyroid", tmp_path)
    page = "https://archive.ics.uci.edu/dataset/102/thyroid+disease"
    assert str(caught.value).endswith(
        f"To get it by hand, download the archive from {page} and extract it in {tmp_path}"
    )


def test_what_needs_a_form_says_so_without_asking_anybody(tmp_path):
    with pytest.raises(DownloadError, match=r"data set 'unsw_nb15' is not in .*UNSW_NB15_training-set\.csv"):
        load("unsw_nb15", tmp_path)


def test_without_pooch_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DownloadError, match=r"pip install pooch\. To get it by hand"):
        load("covertype", tmp_path)


def test_files_put_there_by_hand_are_read_and_prepared(thyroid, tmp_path):
    (tmp_path / "thyroid.zip").write_bytes(archive(thyroid))
    assert load("annthyroid", tmp_path).path == tmp_path / "annthyroid.parquet"
    assert_frame_equal(pl.read_parquet(tmp_path / "annthyroid.parquet"), thyroid)


def test_a_folder_that_cannot_be_written_is_read_all_the_same(thyroid, tmp_path, monkeypatch):
    (tmp_path / "thyroid.zip").write_bytes(archive(thyroid))

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(loading, "atomic_write", refuse)
    assert load("annthyroid", tmp_path).features.height == 7200
    assert [path.name for path in tmp_path.iterdir()] == ["thyroid.zip"]


def test_a_damaged_file_is_named(thyroid, tmp_path):
    place = tmp_path / "annthyroid.parquet"
    thyroid.write_parquet(place)
    place.write_bytes(place.read_bytes()[:10_000])
    with pytest.raises(ValueError, match=r"annthyroid\.parquet cannot be read .*: remove it"):
        load("annthyroid", tmp_path)
    pl.DataFrame({"a": [1]}).write_parquet(place)
    with pytest.raises(ValueError, match="has no column 'class', so it is not annthyroid"):
        load("annthyroid", tmp_path)
    pl.DataFrame({"class": ["ill"]}).write_parquet(place)
    with pytest.raises(ValueError, match="column 'class' contains 'ill', which is not a class of annthyroid"):
        load("annthyroid", tmp_path)
