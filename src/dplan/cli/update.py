"""``dplan update``: continue training with new verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options
from dplan.cli._options import FILE, TABLE, name_of
from dplan.cli._terminal import examples, keep_bad_rows, say, status, stopwatch, warn_of_useless

if TYPE_CHECKING:
    from dplan.tables import Input, Judged, LabelledTable, TableModel
    from dplan.tables.bad_cells import OnError
    from dplan.tables.updating import Change
    from dplan.tables.words import Words
    from dplan.tables.writing import Output


@click.command(
    short_help="Continue training a model with new verdicts.",
    epilog=examples(
        "dplan update fraud.dplan queue.csv",
        "dplan update fraud.dplan june.csv --label verdict --anomaly fraud --normal ok",
        "dplan update fraud.dplan june.csv --label verdict --anomaly 'card theft' -o fraud-june.dplan",
    ),
)
@click.argument("model", type=FILE)
@click.argument("table", type=TABLE)
@click.option("--label", metavar="COLUMN", help="Column with the verdicts.  [default: as in dplan fit]")
@_options.words
@_options.output("Model file to write.  [default: replace MODEL]", required=False)
@_options.seed
@click.option(
    "--no-estimate",
    is_flag=True,
    help="Skip the estimate on held-out verdicts, which takes half of the time.",
)
@_options.on_error
@_options.reading_or_stream
def update(
    model: Path,
    table: Path,
    label: str | None,
    words: Words | None,
    output: Output,
    seed: int,
    no_estimate: bool,
    on_error: OnError,
    reading: _options.Reading,
) -> None:
    """Continue training MODEL with the rows of TABLE.

    TABLE is a review queue written by dplan score --review, with verdicts filled in, or a table of new rows, some of
    them labelled: known anomalies, rows that were checked and are normal, or both. Values mean what they meant in dplan
    fit, unless --anomaly or --normal is given. Training also uses the rows stored in MODEL, so that it does not forget
    earlier verdicts; if a row comes back with another verdict, the later one wins.
    """
    from dplan.persistence.claim import check_new
    from dplan.tables.model import TableModel
    from dplan.tables.review_queue import is_queue, read_queue
    from dplan.tables.updating import as_verdicts, changes, update_model
    from dplan.tables.words import described, listed

    target = output.path or model
    written = replace(output, path=target, overwrite=output.overwrite or target == model)
    with written.claimed(reading.table(table)), stopwatch() as seconds:
        check_new(written.errors, output.overwrite)
        status(f"Reading {table}")
        old = TableModel.load(model)
        given = reading.table(table, old)
        new: LabelledTable | Judged
        if table.is_file() and is_queue(table):
            new = read_queue(old, table, label=label, words=words)
        else:
            new = _read_table(old, given, label, words, on_error)
            keep_bad_rows(new.bad, written, on_error)
        status("Training")
        updated = update_model(old, new, seed=seed)
        updated.save(target)
        rows = as_verdicts(old, new)
        counts = {name: int((rows.y == k).sum()) for k, name in enumerate(rows.classes)}
        say(f"{name_of(table)}: {len(rows.y):,} rows: {described(counts, int((rows.y < 0).sum()))}.")
        summary = updated.summary
        say(f"The model now knows {described(summary.labels, summary.checked_normal)}.")
        if slips := summary.updates[-1]["slips"]:
            say(
                f"Not learned, because most other verdicts contradict them: {len(slips):,} of the rows called normal. "
                f"Are these slips? {listed(slips)}."
            )
        if not no_estimate:
            say(_described(changes(old, rows, updated, seed=seed)))
        say(f"Wrote {target} in {seconds():.1f} s.")


def _read_table(
    model: TableModel,
    table: Input,
    label: str | None,
    given: Words | None,
    on_error: OnError,
) -> LabelledTable:
    """Read new rows; words that were not given mean what they meant in training."""
    from dplan.tables import from_table
    from dplan.tables.bad_cells import without_bad_cells
    from dplan.tables.words import words_of

    labelled = from_table(
        table,
        label or model.summary.label,
        words=words_of(model, given),
        partial=True,
        id=model.summary.ids,
        text=model.columns,  # which the model reads as it did in training
    )
    if labelled.labels is not None and labelled.labels.spellings:
        found = {word.casefold() for word in labelled.labels.spellings}
        unmatched = [word for word in (given.every() if given else ()) if word.casefold() not in found]
        if unmatched:
            raise ValueError(
                f"label column {labelled.label!r} has no value {unmatched[0]!r}; check its spelling"
            )
        say(f"Column {labelled.label}: {labelled.labels.matches()}.")
    with labelled.located():
        done = without_bad_cells(labelled.features, model.prepare_with_report, on_error)
    warn_of_useless(done.result[1].useless())
    return labelled.with_rows(done)


def _described(change: Change) -> str:
    """Say what an update changes."""
    which = "Held-out verdicts" if change.held_out else "These verdicts (too few to hold some out)"
    parts = []
    if change.normal:
        gone = change.false_before - change.false_after
        fewer = f"{gone:,} of {change.false_before:,} false alarms gone"
        parts.append(fewer if gone >= 0 else f"{-gone:,} more false alarms")
    if change.finds:
        parts.append(
            f"{change.found_after:,} of {change.finds:,} anomalies found, {change.found_before:,} before"
        )
    before, after = (f"{100 * p:.0f} %" if math.isfinite(p) else "no alerts" for p in change.precision)
    parts.append(f"precision of alerts {before} before, {after} now")
    return f"{which}: {'; '.join(parts)}."
