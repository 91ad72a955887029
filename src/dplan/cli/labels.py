"""``dplan labels``: use the verdicts of a review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options
from dplan.cli._options import FILE, OUTPUT
from dplan.cli._terminal import echo, examples
from dplan.text import shown

if TYPE_CHECKING:
    from dplan.tables.writing import Output


@click.group(short_help="Use the verdicts of a review.")
def labels() -> None:
    """Use the logs of verdicts that dplan review writes."""


@labels.command(epilog=examples("dplan labels replay fraud.verdicts.jsonl"))
@click.argument("log", type=FILE)
def replay(log: Path) -> None:
    """Replay LOG and print what it adds up to."""
    from dplan.review.export import count_lines
    from dplan.review.log import read_log

    found = count_lines(read_log(log))
    rows = sum(found.labels.values())
    echo(
        f"{log.name}: {rows:,} rows with a verdict; {found.given:,} verdicts given, {found.changed:,} replaced, "
        f"{found.undone:,} undone."
    )
    if found.labels:
        echo("Labels: " + ", ".join(f"{n:,} {name}" for name, n in found.labels.items()) + ".")
        reviewers = (f"{name or 'unknown'} ({n:,})" for name, n in found.reviewers.items())
        echo(f"Reviewers: {', '.join(reviewers)}.")
    for name, line in found.muted.items():
        echo(f"Muted: {shown(name)}, by {line['who']} until {line['until']}: {line['reason']}")
    echo(f"Times opened: {found.sessions:,}. Times the detector has learned: {found.refits:,}.")


@labels.command(
    epilog=examples(
        "dplan labels export fraud.verdicts.jsonl june.csv -o june-labels.csv",
        "dplan fit june-labels.csv --label verdict --anomaly anomaly --id payment_id -o fraud-2.dplan",
    )
)
@click.argument("log", type=FILE)
@click.argument("table", type=FILE)
@_options.output("CSV, TSV, JSON lines or Parquet file to write.")
@click.option("--only-reviewed", is_flag=True, help="Leave out rows without a verdict.")
@_options.reading
def export(log: Path, table: Path, output: Output, only_reviewed: bool, reading: _options.Reading) -> None:
    """Write TABLE with the verdicts of LOG in a column, which dplan fit and dplan update read."""
    from dplan.review.export import export_labels
    from dplan.review.log import read_log
    from dplan.review.table import TableFile

    records = read_log(log)
    sessions = [record for record in records if record["kind"] == "session"]
    ids = tuple(sessions[-1]["ids"]) if sessions else ()
    file = TableFile(reading.table(table), ids)
    done = export_labels(
        records,
        file,
        output.file,
        only_reviewed=only_reviewed,
        inputs=_options.files_read(),
        overwrite=output.overwrite,
    )
    echo(f"Wrote {output.file}: {done.rows:,} rows, {done.labelled:,} with a verdict.")
    if done.unmatched:
        echo(
            f"Warning: {done.unmatched:,} verdicts are about rows that are not in {table.name} or have changed.",
            err=True,
        )


@labels.command(epilog=examples("dplan labels merge anna.jsonl ben.jsonl -o both.jsonl"))
@click.argument("logs", nargs=-1, required=True, type=FILE)
@click.option("-o", "--output", required=True, type=OUTPUT, help="Log to write; it must not exist.")
def merge(logs: tuple[Path, ...], output: Path) -> None:
    """Merge LOGS of the same table into one, by time; a later verdict about a row counts."""
    from dplan.persistence.claim import claimed
    from dplan.review.export import count_lines, merge_logs
    from dplan.review.log import label_of, read_log

    with claimed(output, logs):
        contradictions = merge_logs([read_log(log) for log in logs], output)
    for one, other in contradictions[:10]:
        echo(
            f"Contradiction: {', '.join(one['row'])} is {label_of(one)} ({one['who']}) and "
            f"{label_of(other)} ({other['who']}).",
            err=True,
        )
    if len(contradictions) > 10:
        echo(f"… and {len(contradictions) - 10:,} more contradictions.", err=True)
    rows = sum(count_lines(read_log(output)).labels.values())
    echo(
        f"Wrote {output}: {rows:,} rows with a verdict, {len(contradictions):,} contradictions "
        "(the later verdict counts)."
    )
