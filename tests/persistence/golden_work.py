"""What a person's work consists of, as files: a table, its model, verdicts, a review queue, kinds, and scored parts.

``python -m tests.persistence.golden_work`` writes them to the golden files of the current version; do that only for a
new version, into a new folder, because every later version must be able to open those that exist.
"""

import sys
from contextlib import suppress
from pathlib import Path

import polars as pl

from dplan import IForest, __version__
from dplan.cli.main import main
from dplan.rules.file import RuleFile
from dplan.scoring import AlertPolicy, Scorer, score_table
from dplan.tables import Input, TableModel, fit_table, from_table
from dplan.tables.writing import Output
from tests.tables.payments import payments

GOLDEN = Path(__file__).parent / "golden"
N_ROWS, N_VERDICTS = 80, 8


def interrupted(stage: str, done: int, total: int | None) -> None:
    """Interrupt a run when it has scored a chunk."""
    if done:
        raise KeyboardInterrupt


def score(folder: Path, **options: object) -> None:
    """Score the table in a folder, into the file ``scored.csv`` beside it."""
    model = TableModel.load(folder / "model.dplan")
    scorer = Scorer(model, alerts=AlertPolicy(budget=5))
    score_table(
        scorer,
        Input(folder / "table.csv").like(model),
        Output(folder / "scored.csv"),
        chunk_rows=40,
        **options,
    )


def write(folder: Path) -> None:
    """Write the files to a new folder."""
    folder.mkdir()
    table = payments(N_ROWS)
    table.write_csv(folder / "table.csv")
    own = from_table(Input(folder / "table.csv"), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, IForest(n_estimators=3, random_state=0), estimate=False).save(folder / "model.dplan")
    words = [str(folder / "model.dplan"), str(folder / "table.csv")]
    log = f"--simulate verdict --verdicts {N_VERDICTS} --every 0 --log {folder}/verdicts.jsonl".split()
    main(["review", *words, *log], standalone_mode=False)
    main(["score", words[1], "-m", words[0], "--review", f"{folder}/queue.csv"], standalone_mode=False)
    queue = pl.read_csv(folder / "queue.csv", infer_schema=False)
    verdicts = pl.Series("verdict", ["fraud", "normal", *[None] * (queue.height - 2)])
    queue.with_columns(verdicts).write_csv(folder / "queue.csv")
    kinds = f"{folder}/kinds.json"
    main(["kinds", *words, "-o", kinds, "--budget", "30"], standalone_mode=False)
    rule = next(kind for kind in RuleFile.load(kinds).kinds if kind.rule is not None)
    muting = ["--owner", "ann", "--reason", "our own shop", "-m", words[0], "--known", words[1]]
    main(["rules", "mute", kinds, rule.name, *muting], standalone_mode=False)
    with suppress(KeyboardInterrupt):
        score(folder, progress=interrupted, n_jobs=1)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else GOLDEN / f"work-{__version__}")
