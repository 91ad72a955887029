"""Write what the start page shows, a real report and a recorded review: python -m docs.recorded.

The recording is the page of the package with the answers of its server at three moments of a review. Both are one file
each, without links to anywhere.
"""

from __future__ import annotations

import base64
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import dplan
import dplan.review
from dplan.tables import fit_table, from_table

STATIC, SITE = Path(__file__).parent / "_static", Path(__file__).parent / "_site"
PAGE = Path(sys.modules["dplan.review"].__file__ or "").parent
VERDICTS = 10  # after which the detector learns
ROUNDS, RECORDED = 6, (1, 6)  # how often it learns, and after which of these the page is recorded
ROWS = 25  # of the queue that can be opened


def main() -> None:
    """Write both pages."""
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_report(Path(scratch))
        write_review(Path(scratch))


def write_report(folder: Path) -> None:
    """Fit forest plots, and write the report of new ones, with kinds of alerts."""
    _example(folder)
    table = from_table(folder / "forest-train.csv", label="label", anomaly=["cottonwood"], id="plot")
    model = fit_table(table, dplan.DPLANEnsemble(random_state=0), estimate=False)
    new, kinds = folder / "forest-new.csv", folder / "kinds.json"
    dplan.kinds(model, new, kinds, budget=100)
    dplan.report(model, new, STATIC / "report.html", budget=100, kinds=kinds, overwrite=True)


def write_review(folder: Path) -> None:
    """Review transfers of a bank, with the true answers, and write the page with what its server has answered."""
    _example(folder, "--messy")
    table = from_table(
        folder / "bank-train.csv", label="Urteil", anomaly=["fraud"], normal=["ok"], id="Nummer"
    )
    model = fit_table(table, dplan.DPLANEnsemble(random_state=0), estimate=False)
    with (folder / "bank-new.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    truth = {row["Nummer"]: row.pop("Wahrheit") for row in rows}
    with (folder / "bank-march.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    log = folder / "march.jsonl"
    with dplan.review(
        model, folder / "bank-march.csv", log=log, refit_every=VERDICTS, who="Anna", browser=False
    ) as page:
        page.wait_until_opened()
        server = _Server(page.url)
        moments = [{"name": "At the start", "answers": server.answers()}]
        for learned in range(1, ROUNDS + 1):
            for _ in range(VERDICTS):
                server.judge(truth)
            server.wait_for_round(learned)
            if learned in RECORDED:
                moments.append({"name": f"After {VERDICTS * learned} verdicts", "answers": server.answers()})
    (STATIC / "review.html").write_text(in_one_file(moments), encoding="utf-8")


class _Server:
    """The server of a review, asked as the page asks it."""

    def __init__(self, url: str) -> None:
        self.root = url.partition("?")[0].rstrip("/")
        self.open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open
        self.open(url).close()  # for the cookie

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps({"window": "recorded", **body}).encode()
        request = urllib.request.Request(
            self.root + path, data, {"Content-Type": "application/json", "Origin": self.root}
        )
        with self.open(request) as answer:
            return json.load(answer)

    def judge(self, truth: dict[str, str]) -> None:
        """Give the first row of the queue its true label."""
        row = self.ask(f"/api/row/{self.ask('/api/queue')['rows'][0]['row']}")
        verdict = "anomaly" if truth[row["id"]] == "fraud" else "normal"
        given = {key: row[key] for key in ("digest", "round")} | {"row": row["entry"]["row"]}
        self.ask("/api/verdict", given | {"verdict": verdict, "class": "fraud" * (verdict == "anomaly")})

    def wait_for_round(self, number: int) -> None:
        """Wait until the detector has learned so many times."""
        for _ in range(600):
            state = self.ask("/api/state")
            if state["round"] == number and not state["refitting"]:
                return
            time.sleep(0.2)
        raise TimeoutError("the detector has not learned")

    def answers(self) -> dict[str, Any]:
        """Return what the page may ask for now, by path."""
        # The state as for those who may only read: the page then has no buttons for verdicts.
        state = self.ask("/api/state") | {"reading": True, "people": []}
        queue, history = self.ask("/api/queue"), self.ask("/api/history")
        shown = [one["row"] for one in queue["rows"]][:ROWS]
        queue["rows"] = queue["rows"][:ROWS]
        decided = [one["number"] for one in history["rows"]]
        found = {"/api/state": state, "/api/queue": queue, "/api/history": history}
        found["/api/threshold"] = self.ask("/api/threshold")
        found["/api/reasons"] = self.ask(f"/api/reasons?rows={','.join(map(str, shown))}")
        for row in {*shown, *decided}:
            found[f"/api/row/{row}"] = self.ask(f"/api/row/{row}") | {"contexts": []}
        return found


def in_one_file(moments: list[dict[str, Any]]) -> str:
    """Return the review page with its styles, its scripts and the recorded answers inside.

    A browser that opens a file loads no modules beside it, so they are part of an import map.
    """
    modules = {
        path.name: re.sub(r'from "\./', 'from "', path.read_text(encoding="utf-8"))
        for path in sorted((PAGE / "static").glob("*.js"))
    }
    urls = {
        name: "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
        for name, text in modules.items()
    }
    styles = (PAGE.parent / "_html" / "style.css", PAGE / "static" / "review.css", SITE / "recording.css")
    recording = json.dumps(moments, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    scripts = (
        f'<script type="application/json" id="recording">{recording}</script>\n'
        f"<script>{(SITE / 'recording.js').read_text(encoding='utf-8')}</script>\n"
        f'<script type="importmap">{json.dumps({"imports": urls})}</script>\n'
        '<script type="module">import "main.js";</script>\n'
    )
    page = (PAGE / "page.html").read_text(encoding="utf-8").replace("{{ title }}", "bank-march.csv")
    page = re.sub(r'<(?:link rel="stylesheet"|script type="module") .*?\n', "", page)
    css = "\n".join(path.read_text(encoding="utf-8") for path in styles)
    return page.replace("</head>", f"<style>{css}</style>\n</head>").replace("</body>", f"{scripts}</body>")


def _example(folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "dplan", "example", *options, "-o", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
