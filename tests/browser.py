"""A real browser, looked at through its own logs."""

import json
import shutil
import subprocess
from contextlib import contextmanager
from typing import NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Visit(NamedTuple):
    dom: str
    console: list[str]
    requests: list[str]


BROWSER = next((path for path in map(shutil.which, NAMES) if path), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")


def visit(page, scratch):
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


@contextmanager
def chromium():
    """A headless browser to act in, as people do: keys, clicks and touch."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        try:
            yield browser
        finally:
            browser.close()
