"""A real browser, looked at through its own logs."""

import json
import shutil
import subprocess
from typing import NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Visit(NamedTuple):
    dom: str
    console: list[str]
    requests: list[str]


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


def visit(browser, page, scratch):
    """Open a file in headless Chromium; give its DOM, console lines, and what it asked the network for."""
    net_log = scratch / "net.json"
    run = subprocess.run(
        [
            browser,
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
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    events = [event.get("params") or {} for event in json.loads(net_log.read_text())["events"]]
    # The browser's own errands have no origin; a page has one, even if it is a file.
    asked = [
        params["url"] for params in events if params.get("initiator", "not an origin") != "not an origin"
    ]
    requests = [url for url in asked if not url.startswith(("file:", "data:"))]
    return Visit(run.stdout, console, requests)
