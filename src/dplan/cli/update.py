"""``dplan update``: continue training with new verdicts."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options
from dplan.cli._options import FILE, TABLE, given_besides, name_of
from dplan.cli._terminal import echo, examples, keeping_bad_rows, say, status, stopwatch, warn_of_useless

if TYPE_CHECKING:
    from dplan.tables import Input, Judged, LabelledTable, TableModel
    from dplan.tables.bad_cells import OnError
    from dplan.tables.updating import Update
    from dplan.tables.words import Words
    from dplan.tables.writing import Output


@click.command(
    short_help="Continue training a model with new verdicts.",
    epilog=examples(
        "dplan update fraud.dplan queue.csv",
        "dplan update fraud.dplan june.csv --label verdict --anomaly fraud --normal ok",
        "dplan update fraud.dplan june.csv --label verdict --anomaly 'card theft' -o fraud-june.dplan",
        "dplan update --undo fraud.dplan",
    ),
)
@click.argument("model", type=FILE)
@click.argument("table", type=TABLE, required=False)
@click.option("--label", metavar="COLUMN", help="Column with the verdicts.  [default: as in dplan fit]")
@_options.words
@_options.output("Model file to write.  [default: replace MODEL]", required=False)
@_options.seed
@click.option("--force", is_flag=True, help="Take the new ranking even if it is worse than the old one.")
@click.option(
    "--no-estimate",
    is_flag=True,
    help="Take the new ranking without comparing it with the old one, which takes most of the time.",
)
@click.option(
    "--undo",
    is_flag=True,
    help="Undo the last update that replaced MODEL; a second time, redo it.",
)
@_options.on_error
@_options.reading_or_stream
def update(
    model: Path,
    table: Path | None,
    label: str | None,
    words: Words | None,
    output: Output,
    seed: int,
    force: bool,
    no_estimate: bool,
    undo: bool,
    on_error: OnError,
    reading: _options.Reading,
) -> None:
    """Continue training MODEL with the rows of TABLE.

    TABLE is a review queue written by dplan score --review, with verdicts filled in, or a table of new rows, some of
    them labelled: known anomalies, rows that were checked and are normal, or both. Values mean what they meant in dplan
    fit, unless --anomaly or --normal is given. Training also uses the rows stored in MODEL, so that it does not forget
    earlier verdicts; if a row comes back with another verdict, the later one wins.

    The new ranking is compared with the old one on verdicts that neither has learned from. If it is worse, MODEL keeps
    the old ranking, and remembers the verdicts for the next update. The file that is replaced is kept as
    MODEL.previous.
    """
    if undo:
        _undo(model, table)
        return
    if table is None:
        raise click.UsageError("missing argument TABLE: a review queue or a table with verdicts")
    if force and no_estimate:
        raise click.UsageError(
            "--force and --no-estimate cannot be combined: without a comparison, nothing is refused"
        )
    from dplan.persistence.claim import check_files, check_new
    from dplan.persistence.previous import previous
    from dplan.tables.model import TableModel
    from dplan.tables.updating import Update, as_verdicts, replace_model, update_if_better, update_model
    from dplan.tables.words import described, listed

    target = output.path or model
    in_place = target.exists() and target.samefile(model)
    written = replace(output, path=target, overwrite=output.overwrite or in_place)
    beside = [previous(target)] if in_place else []
    check_files([model], [*written.beside, *beside])  # but the model itself may be replaced
    with written.claimed(reading.table(table), others=beside), stopwatch() as seconds:
        check_new(written.errors, output.overwrite)
        status(f"Reading {table}")
        old = TableModel.load(model)
        new = _read(old, reading.table(table, old), table, label, words, on_error)
        if no_estimate:
            status("Training")
            done = Update(update_model(old, new, seed=seed), True, None)
        else:
            done = update_if_better(
                old, new, seed=seed, force=force, stage=lambda name: status(name.capitalize())
            )
        with keeping_bad_rows(new.bad, written, on_error):
            if in_place:
                replace_model(target, old, done.model)
            else:
                done.model.save(target)
        rows = as_verdicts(old, new)
        counts = {name: int((rows.y == k).sum()) for k, name in enumerate(rows.classes)}
        say(f"{name_of(table)}: {len(rows.y):,} rows: {described(counts, int((rows.y < 0).sum()))}.")
        summary = done.model.summary
        say(f"The model now knows {described(summary.labels, summary.checked_normal)}.")
        if slips := summary.updates[-1]["slips"]:
            say(
                f"Not learned, because most other verdicts contradict them: {len(slips):,} of the rows called normal. "
                f"Are these slips? {listed(slips)}."
            )
        if not no_estimate:
            _say_compared(done, force)
        say(f"Wrote {target} in {seconds():.1f} s.")
        if in_place:
            say(f"To go back: dplan update --undo {target}")


def _undo(model: Path, table: Path | None) -> None:
    """Undo the last update of a model file."""
    others = given_besides("model", "table", "undo")
    if table is not None or others:
        raise click.UsageError(f"--undo cannot be combined with {others or 'TABLE'}")
    from dplan.persistence.claim import claimed
    from dplan.persistence.previous import previous
    from dplan.tables.updating import undo_update
    from dplan.tables.words import described

    with claimed(model):
        summary = undo_update(model).summary
    say(f"{model} is what it was before; it knows {described(summary.labels, summary.checked_normal)}.")
    say(f"The other version is now {previous(model)}; run the same command again to bring it back.")


def _say_compared(done: Update, forced: bool) -> None:
    """Say how the rankings compare, and which one the model has now."""
    found = done.comparison
    if found is None:
        say("There are too few known anomalies to tell whether the new ranking is better; the model uses it.")
        return
    say(
        f"Compared on {found.anomalies:,} anomalies and {found.false_alarms:,} false alarms that were held out, among "
        f"{found.unlabelled:,} unlabelled rows: of the {found.anomalies:,} highest rows, {found.found_before:,} are "
        f"anomalies in the old ranking and {found.found_after:,} in the new one (average precision "
        f"{found.before:.2f} and {found.after:.2f})."
    )
    if not done.is_new:
        echo(
            "Warning: the new ranking is worse, so the model keeps the old one. It remembers the verdicts, and the "
            "next update learns from them too. To take the new ranking anyway, use --force.",
            err=True,
        )
    elif found.is_worse and forced:
        echo("Warning: the new ranking is worse; the model uses it because of --force.", err=True)


def _read(
    model: TableModel, given: Input, table: Path, label: str | None, words: Words | None, on_error: OnError
) -> LabelledTable | Judged:
    """Read a review queue, or a table of new rows."""
    from dplan.tables.review_queue import is_queue, read_queue

    if not table.is_file() or not is_queue(table):
        return _read_table(model, given, label, words, on_error)
    if others := _options.given(*(field.name for field in fields(_options.Reading) if field.name != "sheet")):
        raise click.UsageError(
            f"{others}: not for a review queue, which is read however a spreadsheet wrote it"
        )
    if on_error == "null":
        raise click.UsageError(
            "--on-error null: not for a review queue, because its cells are needed; use skip"
        )
    sheet = given.sheet if _options.given("sheet") else None  # not that of the training table
    return read_queue(model, table, label=label, words=words, sheet=sheet, on_error=on_error)


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
    from dplan.tables.label_columns import columns_of
    from dplan.tables.review_queue import was_queue
    from dplan.tables.words import words_of

    table = table.readable_twice()
    columns = next(table.chunks(1))().columns
    answers, column = was_queue(columns), label or model.summary.label
    names = columns_of(column, columns)
    table.rewind()
    labelled = from_table(
        table,
        names,
        words=words_of(model, given, answers=answers),
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
        done = without_bad_cells(labelled.features, model.prepare_with_report, on_error, labelled.positions)
    warn_of_useless(done.result[1].useless())
    return labelled.with_rows(done)
