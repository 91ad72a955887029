"""Every shell and Python block of the pages for people with a table runs, in the page's order, in an empty folder."""

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    "first-detector.md",
    "messy-table.md",
    "reading-the-report.md",
    "production.md",
    "which-detector.md",
    "verdicts.md",
]


def blocks(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(sh|python)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(sys.platform == "win32", reason="the blocks are for a POSIX shell")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_written(page, tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for kind, group in groupby(blocks(page), key=lambda block: block[0]):
        code = "\n".join(text for _, text in group)
        command = ["sh", "-euc", code] if kind == "sh" else [sys.executable, "-W", "error", "-c", code]
        run = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    made = {path.name for path in tmp_path.iterdir()}
    expected = {
        "first-detector.md": {"top.csv", "scored.parquet", "report.html", "top-payments.csv"},
        "messy-table.md": {"bank.dplan", "decisions.csv", "columns.toml"},
        "reading-the-report.md": {"report.html"},
        "production.md": {"scored.parquet", "scored-parts", "scored-by-polars.parquet", "stream.csv"}
        | {"forest-2.dplan", "fraud.onnx"},
        "which-detector.md": {"forest.dplan"},
        "verdicts.md": {"queue-2.csv", "forest-3.dplan"},
    }
    assert expected[page] <= made
    assert not [name for name in made if name.startswith(".")]
