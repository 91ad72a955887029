"""A real browser, looked at through its own logs."""

import html
import json
import re
import shutil
import subprocess
from typing import NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Visit(NamedTuple):
    dom: str
    console: list[str]
    requests: list[str]


BROWSER = next((path for path in map(shutil.which, NAMES) if path), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")


def probe(page, scratch, script, *, width=1280, dark=False):
    """Run the body of a function in a copy of a page, in a frame of some width, and return its result.

    A window cannot be as narrow as a phone, but a frame can. The copy has no security policy, which would stop the
    script.
    """
    text = re.sub(r"<meta http-equiv=.*?>", "", page.read_text(encoding="utf-8"))
    sends = f"<script>parent.postMessage(JSON.stringify((() => {{ {script} }})()), '*')</script>"
    (scratch / "probed.html").write_text(text.replace("</body>", f"{sends}</body>"), encoding="utf-8")
    frame = scratch / "frame.html"
    frame.write_text(
        "<pre></pre><script>addEventListener('message', (sent) => {"
        " document.querySelector('pre').textContent = sent.data })</script>"
        f"<iframe src='probed.html' style='width: {width}px; height: 2000px; border: 0'></iframe>"
    )
    seen = visit(frame, scratch, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    return json.loads(html.unescape(re.search("<pre>(.*?)</pre>", seen.dom, re.DOTALL)[1]))


def visit(page, scratch, *options):
    """Open a file in headless Chromium; return its DOM, console lines, and what it requested from the network."""
    net_log = scratch / "net.json"
    run = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            f"--log-net-log={net_log}",
            f"--user-data-dir={scratch / 'profile'}",
            "--virtual-time-budget=2000",
            "--dump-dom",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    log = net_log.read_text().rstrip()
    if not log.endswith("}"):  # the browser may leave the log unfinished
        log = log.rstrip(",") + "]}"
    events = [event.get("params") or {} for event in json.loads(log)["events"]]
    # The browser's own errands have no origin; a page has one, even if it is a file.
    asked = [
        params["url"] for params in events if params.get("initiator", "not an origin") != "not an origin"
    ]
    requests = list(dict.fromkeys(url for url in asked if not url.startswith(("file:", "data:"))))
    return Visit(run.stdout, console, requests)
