"""What a reader does on the page, and what comes of it."""

from dplan.review.log import read_log

DESKTOP, LAPTOP = {"width": 1440, "height": 900}, {"width": 1280, "height": 720}
PHONE = {"width": 390, "height": 844}


def shown(page):
    """Return the id of the row on the screen."""
    return page.inner_text(".row-id")


def ready(page):
    """Wait until the row on the screen takes a verdict."""
    page.wait_for_selector("#row[aria-busy=false]")


def press(page, key):
    """Press a key and wait until the page shows another row; return the row before."""
    ready(page)
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('.row-id')?.innerText !== before", arg=before)
    return before


def verdicts(review):
    """Return the verdicts and withdrawals in the log."""
    kinds = ("verdict", "undo")
    return [record for record in read_log(review.log) if record["kind"] in kinds]
