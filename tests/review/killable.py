"""A simulated review that is killed at random moments: python -m tests.review.killable FOLDER LOG VERDICTS.

Every acknowledged verdict is printed; the printed lines are what must be in the log.
"""

import sys
from pathlib import Path

import polars as pl

from dplan.review.engine import Engine
from dplan.review.log import VerdictLog
from dplan.review.session import Session
from dplan.review.simulation import answers_of, simulate
from dplan.review.table import as_file
from dplan.tables.words import words_of


def run(folder, log, verdicts, acknowledge):
    """Review payments by their true class, learning after every seventh verdict."""
    table = as_file(folder / "june.csv", ("payment",), None, log.parent)
    truth = answers_of(pl.read_csv(folder / "june.csv")["truth"], words_of(None))
    with VerdictLog(log) as opened:
        session = Session(Engine(table, folder / "fraud.dplan"), opened, refit_every=7, who="simulation")
        session.open()
        for row in simulate(session, truth.__getitem__, verdicts):
            acknowledge(row)


def say(row):
    sys.stdout.write(f"{row}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), say)
