"""Take the pictures of the docs: python -m tests.review.pictures docs/images."""

import sys
import tempfile
from pathlib import Path

import polars as pl

from dplan import DPLANEnsemble
from dplan.review.engine import Engine
from dplan.review.log import VerdictLog
from dplan.review.session import Session
from dplan.review.simulation import simulate
from dplan.review.table import as_file
from dplan.tables import fit_table, from_table
from tests.browser import chromium
from tests.review.serving import served
from tests.tables.payments import payments

SIZES = {
    "review.png": ({"width": 1440, "height": 900}, "light"),
    "review-dark.png": ({"width": 1440, "height": 900}, "dark"),
    "review-phone.png": ({"width": 390, "height": 844}, "light"),
}


def prepare(folder, detector):
    """Write a table of payments and a model, and begin a review: 46 verdicts, four refits."""
    known = from_table(payments(1500), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(known, detector, estimate=False).save(folder / "fraud.dplan")
    table = payments(2000, seed=1).drop("verdict").with_columns(pl.col("payment").str.replace("p", "j"))
    # Fraud of a kind that the model does not know: small and at night, many times the same.
    small = table[:12].with_columns(
        payment=pl.Series([f"t{i:05}" for i in range(12)]), amount=0.99 + pl.int_range(12) * 0.01, items=pl.lit(40),
        country=pl.lit("DE"), new_customer=pl.lit(True), day=table["day"][3],
    )  # fmt: skip
    pl.concat([table, small], how="vertical_relaxed").write_csv(folder / "june.csv")
    truth = ["fraud" if i % 50 == 0 else "card test" if i >= 2000 else "" for i in range(2012)]
    with VerdictLog(folder / "verdicts.jsonl") as log:
        engine = Engine(as_file(folder / "june.csv", ("payment",), None, folder), folder / "fraud.dplan")
        session = Session(engine, log, who="anna")
        session.open()
        for _ in simulate(session, truth.__getitem__, 46):
            pass


def take(target, browser, detector):
    """Write the pictures to a folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, detector)
        with served(folder, folder, who="anna") as review:
            for file, (viewport, scheme) in SIZES.items():
                context = browser.new_context(
                    viewport=viewport, color_scheme=scheme, reduced_motion="reduce", device_scale_factor=2
                )
                page = context.new_page()
                page.goto(review.url)
                page.set_default_timeout(120_000)  # on a busy machine
                page.wait_for_selector("#row-body section")
                page.wait_for_selector("#curve svg")
                page.wait_for_selector("#queue .why bdi")
                page.screenshot(path=target / file)
                context.close()


if __name__ == "__main__":
    with chromium() as browser:
        ensemble = DPLANEnsemble(n_agents=1, n_steps=3000, warmup_steps=1000, n_jobs=-1, random_state=0)
        take(Path(sys.argv[1]), browser, ensemble)
