"""``dplan rules``: evaluate rules on a table, or write them as SQL."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli import _options
from dplan.cli._options import FILE, TABLE, name_of
from dplan.cli._terminal import echo, examples

DIALECTS = ("postgresql", "sqlite", "duckdb")


@click.group(short_help="Evaluate rules about rows, or write them as SQL.")
def rules() -> None:
    """Work with files of rules: conditions on the columns of a table, as JSON."""


@rules.command(epilog=examples("dplan rules check rules.json payments.csv"))
@click.argument("rule_file", metavar="RULES", type=FILE)
@click.argument("table", type=TABLE)
@_options.reading_or_stream
def check(rule_file: Path, table: Path, reading: _options.Reading) -> None:
    """Say which rows of TABLE each rule of the file RULES selects. No model is needed.

    The exit code is 1 if the file is not valid, or if the table lacks a column or has another type of values.
    """
    from dplan.columns.formatting import format_share
    from dplan.rules.file import RuleFile, with_types

    found = RuleFile.load(rule_file)
    frame, _ = reading.table(table).read()
    columns = with_types(frame, found.columns)
    for name, rule in found.rules:
        selected = columns.select(rule.expression()).to_series().arg_true() + 1
        share = format_share(len(selected) / max(1, frame.height))
        first = ", ".join(f"{row:,}" for row in selected.head(5).to_list())
        more = ", …" * (len(selected) > 5)
        rows = f"; rows {first}{more}" if len(selected) else ""
        echo(f"{name}: {rule}: {len(selected):,} of {frame.height:,} rows ({share}){rows}")
    without = [kind.name for kind in found.kinds if kind.rule is None]
    if without:
        echo(f"Without a rule: {', '.join(without)}.")
    n = len(found.rules)
    echo(f"{rule_file.name}: {n:,} rule{'s' if n != 1 else ''}; {name_of(table)}: {frame.height:,} rows.")


@rules.command(epilog=examples("dplan rules sql rules.json --dialect duckdb --table payments"))
@click.argument("rule_file", metavar="RULES", type=FILE)
@click.option("--dialect", type=click.Choice(DIALECTS), required=True, help="The database.")
@click.option("--table", metavar="NAME", default="your_table", show_default=True, help="Name of the table.")
def sql(rule_file: Path, dialect: str, table: str) -> None:
    """Print the rules of the file RULES as SQL queries."""
    from dplan.rules.file import RuleFile
    from dplan.rules.sql import script

    found = RuleFile.load(rule_file)
    click.echo(script(found.rules, dialect, table, found.meanings), nl=False)


@rules.command(
    epilog=examples(
        'dplan rules mute kinds.json "like nothing labelled" --owner ann --reason "test orders" -m fraud.dplan '
        "--known payments.csv"
    )
)
@click.argument("rule_file", metavar="RULES", type=FILE)
@click.argument("name", metavar="KIND")
@click.option("--owner", required=True, help="Who answers for it.")
@click.option("--reason", required=True, help="Why alerts of this kind are harmless.")
@_options.count("--days", 90, "Days until it expires.")
@click.option("-m", "--model", required=True, type=FILE, help="Model file written by dplan fit.")
@click.option(
    "--known",
    required=True,
    type=TABLE,
    help="Table with the known anomalies, such as the training table; none of them may match the rule.",
)
@_options.reading_or_stream
def mute(
    rule_file: Path,
    name: str,
    owner: str,
    reason: str,
    days: int,
    model: Path,
    known: Path,
    reading: _options.Reading,
) -> None:
    """Mute a KIND of the file RULES: rows that meet its rule are no alerts in dplan score until it expires.

    This is refused if the kind has no rule, or if its rule matches a known anomaly.
    """
    from dplan.persistence.claim import claimed
    from dplan.rules.file import RuleFile
    from dplan.rules.muting import anomalies_matched, muted
    from dplan.tables.model import TableModel

    loaded = TableModel.load(model)
    with claimed(rule_file):  # or what another run mutes meanwhile would be lost
        found = RuleFile.load(rule_file)
        kind = found.named(name)
        n = sum(
            anomalies_matched(kind, found.columns, chunk(), loaded)
            for chunk in reading.table(known, loaded).chunks()
        )
        changed = muted(found, kind, owner=owner, reason=reason, days=days, n_known=n)
        changed.save(rule_file)
    until = changed.named(name).about["muted"]["until"]
    echo(f"Muted until {until}: {kind.name}: {kind.rule}.")


@rules.command(epilog=examples('dplan rules unmute kinds.json "like nothing labelled"'))
@click.argument("rule_file", metavar="RULES", type=FILE)
@click.argument("name", metavar="KIND")
def unmute(rule_file: Path, name: str) -> None:
    """Make rows of a muted KIND alerts again."""
    from dplan.persistence.claim import claimed
    from dplan.rules.file import RuleFile
    from dplan.rules.muting import unmuted

    with claimed(rule_file):
        found = RuleFile.load(rule_file)
        unmuted(found, found.named(name)).save(rule_file)
    echo(f"No longer muted: {name}.")
