"""``dplan score``: from a model file and a table to a ranked table."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import BinaryIO

import click

from dplan.cli._shared import MODEL, OneLineErrors, chunk_bar, examples, say, stopwatch

_FORMATS = ("csv", "jsonl", "parquet")


@click.command(
    cls=OneLineErrors,
    short_help="Score a table of any size, with reasons.",
    epilog=examples(
        "dplan score new.csv -m fraud.dplan -o scored.csv --explain",
        "dplan score new.csv -m fraud.dplan -o top.csv --top 50 --explain",
        "zcat new.csv.gz | dplan score - -m fraud.dplan -o - --budget 100 > scored.csv",
        "dplan score parts/ -m fraud.dplan -o scored/ --jobs 4",
        "dplan score 'parts/*.parquet' -m fraud.dplan -o scored/ --backend dask --scheduler tcp://127.0.0.1:8786",
    ),
)
@click.argument("table")
@click.option("-m", "--model", required=True, type=MODEL, help="Model file that dplan fit wrote.")
@click.option(
    "-o", "--output", required=True, help="File to write, a folder for a folder, or - for standard output."
)
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="A column to copy, beside the ids; may be repeated."
)
@click.option(
    "--top", type=click.IntRange(1), metavar="K", help="Only the K highest scores, the highest first."
)
@click.option("--budget", type=click.IntRange(1), metavar="N", help="The N highest scores are alerts.")
@click.option("--threshold", type=float, metavar="SCORE", help="Scores from here on are alerts.")
@click.option(
    "--explain", is_flag=True, help="Say why, for alerts and --top rows: the three strongest columns."
)
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="Of standard input and output.  [default: csv]"
)
@click.option(
    "--chunk-rows", default=100_000, show_default=True, type=click.IntRange(1), help="Rows at a time."
)
@click.option(
    "--jobs", default=2, show_default=True, type=click.IntRange(1), help="Parts of a folder at a time."
)
@click.option(
    "--backend", type=click.Choice(["local", "dask"]), default="local", help="Where parts are scored."
)
@click.option("--scheduler", metavar="ADDRESS", help="Of the Dask cluster.")
def score(
    table: str,
    model: Path,
    output: str,
    keep: tuple[str, ...],
    top: int | None,
    budget: int | None,
    threshold: float | None,
    explain: bool,
    form: str | None,
    chunk_rows: int,
    jobs: int,
    backend: str,
    scheduler: str | None,
) -> None:
    """Score TABLE: a file, a folder or glob of Parquet parts, or - for standard input.

    The output has the ids, a score (higher is more anomalous), its percentile among the unlabelled training rows, and
    whether the row is an alert. Tables may be larger than memory. A run that was interrupted goes on where it stopped
    when it is started again.
    """
    from dplan.tables.folders import parts_of, score_parts
    from dplan.tables.model import TableModel
    from dplan.tables.scoring import Wish, score_table

    if budget is not None and threshold is not None:
        raise click.UsageError("--budget and --threshold cannot both say what is an alert")
    if (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together")
    with stopwatch() as seconds, chunk_bar("Scoring") as progress:
        loaded = TableModel.load(model)
        wish = Wish(tuple(loaded.summary.get("ids", ())), keep, top, budget, threshold, explain)
        parts = parts_of(table)
        if parts is not None:
            outcome = score_parts(
                model, parts, Path(output), wish,
                chunk_rows=chunk_rows, n_jobs=jobs, scheduler=scheduler, progress=progress,
            )  # fmt: skip
        else:
            if scheduler is not None:
                raise click.UsageError("--backend dask is for a folder or glob of Parquet parts")
            source, kind = _source(table, form)
            target, output_kind = _target(output, form)
            outcome = score_table(
                loaded, source, kind, target, wish,
                output_kind=output_kind, job=_job(model, source), chunk_rows=chunk_rows, progress=progress,
            )  # fmt: skip
    by = f"the {budget:,} highest scores" if budget else f"scores of at least {outcome.threshold:.6g}"
    resumed = f"; {outcome.resumed} parts were there already" if outcome.resumed else ""
    say(
        f"Scored {outcome.rows:,} rows in {seconds():.1f} s{resumed}; {outcome.alerts:,} alerts ({by}); "
        f"wrote {'standard output' if output == '-' else output}.",
        to_stderr=True,
    )


def _source(table: str, form: str | None) -> tuple[Path | BinaryIO, str]:
    from dplan.tables.chunks import kind_of_file

    if table != "-":
        path = Path(table)
        if not path.is_file():
            raise click.UsageError(f"there is no file {table}")
        return path, kind_of_file(path)
    if form == "parquet":
        raise click.UsageError("Parquet cannot be read from standard input")
    return sys.stdin.buffer, form or "csv"


def _target(output: str, form: str | None) -> tuple[Path | None, str]:
    from dplan.tables.chunks import kind_of_file

    if output == "-":
        return None, form or "csv"
    if output.endswith(".gz"):
        raise click.UsageError(f"{output}: the output cannot be gzipped; .parquet is small")
    return Path(output), kind_of_file(Path(output))


def _job(model: Path, source: Path | BinaryIO) -> str:
    """Tell this job from others, by the content of the model and the table's name, size and time."""
    from dplan.tables.folders import told_apart

    return uuid.uuid4().hex if not isinstance(source, Path) else told_apart(model.read_bytes(), [source])
