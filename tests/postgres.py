"""A PostgreSQL server of a test's own: in a folder, on a socket there, gone at the end.

The folder is not pytest's, which every new session closes to other users, and the server refuses to run as root.
"""

import glob
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

_FOUND = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb") or ""]
BIN = Path(_FOUND[-1]).parent
IS_ROOT = os.geteuid() == 0

needs_postgres = pytest.mark.skipif(not _FOUND[-1], reason="PostgreSQL is not installed (Debian: postgresql)")


def _as_user(*command):
    """Return a command as it is run: the server refuses to run as root."""
    return ["runuser", "-u", "postgres", "--", *map(str, command)] if IS_ROOT else [*map(str, command)]


@contextmanager
def postgres():
    """Start a server; yield a function that runs a script and returns what psql prints, and the address."""
    home = Path(tempfile.mkdtemp(prefix="dplan-postgres-"))
    home.chmod(0o711)
    if IS_ROOT:
        shutil.chown(home, "postgres")
    data = home / "data"
    run = {"check": True, "capture_output": True, "cwd": home}
    subprocess.run(
        _as_user(BIN / "initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C"), **run
    )
    options = f"-c listen_addresses='' -c unix_socket_directories='{home}' -c fsync=off"
    start = _as_user(
        BIN / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-t", "120", "-o", options, "start"
    )
    subprocess.run(start, check=True, cwd=home, stdout=subprocess.DEVNULL)

    def psql(script):
        command = [
            BIN / "psql",
            "-h",
            home,
            "-U",
            "tester",
            "-d",
            "postgres",
            "-X",
            "-At",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        done = subprocess.run(
            _as_user(*command), input=script, text=True, capture_output=True, cwd=home, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        yield psql, f"postgresql://tester@/postgres?host={home}"
    finally:
        subprocess.run(_as_user(BIN / "pg_ctl", "-D", data, "-m", "immediate", "stop"), **run)
        shutil.rmtree(home, ignore_errors=True)
