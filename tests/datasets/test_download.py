"""Downloads from a real local HTTP server that breaks off, lies, refuses, and a disk that is full."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dplan.datasets.download import DownloadError, download, sha256_of

CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture(autouse=True)
def content(server):
    server.served.content = CONTENT


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_file(server, tmp_path):
    seen = []
    target = download(
        f"{server.url}/a.zip", tmp_path / "sub" / "a.zip", progress=lambda *now: seen.append(now)
    )
    assert target.read_bytes() == CONTENT
    assert files(tmp_path / "sub") == ["a.zip"]
    assert seen[-1] == (300_000, 300_000)
    assert [there for there, _ in seen] == sorted(there for there, _ in seen)


def test_interruptions_are_resumed(server, tmp_path):
    server.served.break_off_after = [70_000, 100_000]
    target = download(f"{server.url}/a.zip", tmp_path / "a.zip", retry_delay=0)
    assert target.read_bytes() == CONTENT
    assert [request.get("Range") for request in server.served.requests] == [
        None,
        "bytes=70000-",
        "bytes=170000-",
    ]
    assert files(tmp_path) == ["a.zip"]


def test_a_later_run_goes_on_where_the_last_one_stopped(server, tmp_path):
    server.served.break_off_after = [120_000]
    with pytest.raises(
        DownloadError, match=r"failed 1 times, .* 120,000 bytes have arrived; run the same command again"
    ):
        download(f"{server.url}/a.zip", tmp_path / "a.zip", max_attempts=1)
    assert files(tmp_path) == ["a.zip.part", "a.zip.part.version"]  # nothing that could be taken for the file
    download(f"{server.url}/a.zip", tmp_path / "a.zip")
    assert server.served.requests[-1]["Range"] == "bytes=120000-"
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


@pytest.mark.parametrize("mark", ["etag", "last_modified"])
def test_a_file_that_changed_meanwhile_starts_over(mark, server, tmp_path):
    server.served.etag = ""
    setattr(server.served, mark, '"one"')
    server.served.break_off_after = [120_000]
    with pytest.raises(DownloadError):
        download(f"{server.url}/a.zip", tmp_path / "a.zip", max_attempts=1)
    server.served.content = CONTENT[::-1]
    setattr(server.served, mark, '"two"')
    assert download(f"{server.url}/a.zip", tmp_path / "a.zip").read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("behaviour", [{"ignore_range": True}, {"etag": ""}, {"etag": 'W/"weak"'}])
def test_a_server_that_cannot_go_on_sends_all(behaviour, server, tmp_path):
    for name, value in behaviour.items():
        setattr(server.served, name, value)
    server.served.break_off_after = [120_000]
    assert download(f"{server.url}/a.zip", tmp_path / "a.zip", retry_delay=0).read_bytes() == CONTENT


def test_a_server_that_sends_another_range_is_not_believed(server, tmp_path):
    server.served.break_off_after = [120_000]
    server.served.wrong_range = True
    with pytest.raises(DownloadError, match="asked for bytes from 120000, got bytes 120001-"):
        download(f"{server.url}/a.zip", tmp_path / "a.zip", retry_delay=0)
    assert not (tmp_path / "a.zip").exists()


def test_a_part_that_was_whole_is_only_renamed(server, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(CONTENT)
    (tmp_path / "a.zip.part.version").write_text(server.served.etag)
    download(f"{server.url}/a.zip", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    assert len(server.served.requests) == 1


def test_a_part_that_is_too_long_starts_over(server, tmp_path):
    (tmp_path / "a.zip.part").write_bytes(CONTENT + b"more")
    (tmp_path / "a.zip.part.version").write_text(server.served.etag)
    assert download(f"{server.url}/a.zip", tmp_path / "a.zip").read_bytes() == CONTENT


def test_a_server_that_does_not_say_the_length(server, tmp_path):
    server.served.say_length = False
    seen = []
    download(f"{server.url}/a.zip", tmp_path / "a.zip", progress=lambda *now: seen.append(now))
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    assert seen[-1] == (300_000, None)


def test_an_answer_in_chunks(server, tmp_path):
    server.served.chunked = True
    server.served.break_off_after = [120_000, 100_000]
    assert download(f"{server.url}/a.zip", tmp_path / "a.zip", retry_delay=0).read_bytes() == CONTENT
    server.served.break_off_after = [120_000]
    with pytest.raises(DownloadError, match=r"failed 1 times"):
        download(f"{server.url}/b.zip", tmp_path / "b.zip", max_attempts=1)
    assert not (tmp_path / "b.zip").exists()


def test_checksum(server, tmp_path):
    right = hashlib.sha256(CONTENT).hexdigest()
    assert sha256_of(download(f"{server.url}/a.zip", tmp_path / "a.zip", sha256=right.upper())) == right


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(DownloadError, match=r"has the sha256 [0-9a-f]{64}, expected 0000"):
        download(f"{server.url}/a.zip", tmp_path / "a.zip", sha256="0" * 64)
    assert files(tmp_path) == []


def test_not_found_is_told_at_once(server, tmp_path):
    server.served.failures = [404, 404]
    with pytest.raises(DownloadError, match=r"/a\.zip answered 404 Not Found"):
        download(f"{server.url}/a.zip", tmp_path / "a.zip")
    assert len(server.served.requests) == 1
    assert files(tmp_path) == []


@pytest.mark.parametrize("arrived", [0, 1000])
def test_a_server_that_always_answers_416_is_told_after_two_requests(arrived, server, tmp_path):
    if arrived:
        (tmp_path / "a.zip.part").write_bytes(CONTENT[:arrived])
        (tmp_path / "a.zip.part.version").write_text(server.served.etag)
    server.served.failures = [416] * 50
    with pytest.raises(DownloadError, match=r"/a\.zip answered 416"):
        download(f"{server.url}/a.zip", tmp_path / "a.zip", retry_delay=0)
    assert len(server.served.requests) == (2 if arrived else 1)
    assert files(tmp_path) == []


@pytest.mark.parametrize("behaviour", [{}, {"say_length": False}, {"chunked": True}])
def test_a_file_that_is_too_large_is_refused(behaviour, server, tmp_path):
    for name, value in behaviour.items():
        setattr(server.served, name, value)
    seen = []
    with pytest.raises(DownloadError, match=r"a\.zip has more than 200,000 bytes"):
        download(
            f"{server.url}/a.zip",
            tmp_path / "a.zip",
            progress=lambda *now: seen.append(now),
            max_bytes=200_000,
        )
    assert len(server.served.requests) == 1
    assert files(tmp_path) == []
    assert all(there <= 200_000 for there, _ in seen)
    assert download(f"{server.url}/a.zip", tmp_path / "a.zip", max_bytes=300_000).read_bytes() == CONTENT


def test_a_server_error_is_tried_again(server, tmp_path):
    server.served.failures = [503, 500]
    assert download(f"{server.url}/a.zip", tmp_path / "a.zip", retry_delay=0).read_bytes() == CONTENT


def test_no_server(server, tmp_path):
    url = server.url
    server.close()
    with pytest.raises(DownloadError, match=r"failed 2 times, .*refused"):
        download(f"{url}/a.zip", tmp_path / "a.zip", max_attempts=2, retry_delay=0)


def test_an_unwritable_folder_is_no_network_problem(server, tmp_path):
    (tmp_path / "a.zip.part").mkdir()
    with pytest.raises(IsADirectoryError):
        download(f"{server.url}/a.zip", tmp_path / "a.zip")


LIMITED = """
import json, sys
from dplan.datasets.download import DownloadError, download
if sys.argv[3] != "0":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    download(sys.argv[1], sys.argv[2], max_attempts=1)
    print(json.dumps("done"))
except DownloadError as error:
    print(json.dumps(str(error)))
"""


def run_limited(url: str, target: Path, limit: int = 0, prefix: tuple[str, ...] = ()) -> str:
    command = [*prefix, sys.executable, "-c", LIMITED, url, str(target), str(limit)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "no_proxy": "*"}
    )
    return json.loads(run.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes need a POSIX system")
def test_a_full_disk_keeps_what_has_arrived_and_goes_on_later(server, tmp_path):
    # A limit on the size of files is the full disk that every user may have.
    answer = run_limited(f"{server.url}/a.zip", tmp_path / "a.zip", limit=100_000)
    assert "no space left" in answer
    assert "after 100,000 bytes" in answer
    assert files(tmp_path) == ["a.zip.part", "a.zip.part.version"]
    download(f"{server.url}/a.zip", tmp_path / "a.zip")
    assert server.served.requests[-1]["Range"] == "bytes=100000-"
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


def test_a_file_system_without_room(server, tmp_path):
    # A real file system of 128 KiB, where the system lets a user mount one.
    unshare = shutil.which("unshare")
    script = f'mount -t tmpfs -o size=128k none "{tmp_path}" && "$@" && ls "{tmp_path}" >&2'
    prefix = (unshare or "", "-rm", "sh", "-c", script, "sh")
    if unshare is None or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system does not let a user mount a small file system")
    answer = run_limited(f"{server.url}/a.zip", tmp_path / "a.zip", prefix=prefix)
    assert "no space left" in answer
