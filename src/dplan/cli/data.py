"""``dplan data``: what data sets are here, getting them, checking them.

Commands import what they need when they run, so that ``dplan --help`` answers at once.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli._shared import progress_bar

if TYPE_CHECKING:
    from dplan.datasets.loading import Dataset

__all__ = ["data"]

_home_option = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the data sets.  [default: $DPLAN_DATA_HOME, else the platform's cache folder]",
)


@click.group()
def data() -> None:
    """Fetch, prepare and check the paper's data sets."""


@data.command("list", epilog="\b\nExample:\n  dplan data list --home my-data")
@_home_option
def list_(home: Path | None) -> None:
    """Show what is here, what is missing, and counts against the paper's Table 1."""
    from dplan.datasets.home import data_home
    from dplan.datasets.loading import find, load
    from dplan.datasets.registry import known_names

    click.echo(f"Data home: {home or data_home()}")
    for name in known_names():
        click.echo()
        if find(name, home) is None:
            click.echo(f"{name}: missing; `dplan data fetch {name}`")
            continue
        try:
            dataset = load(name, home)
        except ValueError as error:
            click.echo(f"{name}: damaged; {error}")
            continue
        _describe(dataset)


@data.command(
    epilog="\b\nExamples:\n  dplan data fetch annthyroid\n  dplan data fetch covertype --home my-data"
)
@click.argument("name")
@_home_option
@click.option("--mirror", metavar="URL", help="Take the publisher's archive from this folder instead.")
@click.option("--sha256", metavar="HEX", help="Checksum that the archive must have.")
def fetch(name: str, home: Path | None, mirror: str | None, sha256: str | None) -> None:
    """Download data set NAME from its publisher and prepare it.

    An interrupted download goes on where it stopped. Where the publisher wants a form filled in, this says
    what to do by hand.
    """
    from dplan.datasets import fetching

    with progress_bar(of_bytes=True) as progress:
        dataset = fetching.fetch(name, home, mirror=mirror, sha256=sha256, progress=partial(progress, name))
    _describe(dataset)


@data.command(epilog="\b\nExample:\n  dplan data prepare unsw_nb15 --from ~/Downloads")
@click.argument("name")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the publisher's files: plain, .gz or in a .zip.",
)
@_home_option
def prepare(name: str, source: Path, home: Path | None) -> None:
    """Turn the publisher's files of data set NAME into the prepared file."""
    from dplan.datasets import fetching

    dataset = fetching.prepare(name, source, home)
    _describe(dataset)


@data.command(epilog="\b\nExample:\n  dplan data check covertype")
@click.argument("name")
@_home_option
def check(name: str, home: Path | None) -> None:
    """Check that data set NAME can be read and agrees with the paper's Table 1.

    The exit code is 0 if it can be read, even if it is partial, and 1 if it is missing or damaged.
    """
    from dplan.datasets.download import sha256_of
    from dplan.datasets.loading import load

    dataset = load(name, home)
    _describe(dataset)
    expected = dataset.source.sha256
    if expected is not None and dataset.path.is_file():
        same = sha256_of(dataset.path) == expected
        edition = "is the one that the project's figures rest on" if same else "is of your own preparing"
        click.echo(f"  file: its sha256 says that it {edition}")
    nulls = sum(dataset.features.null_count().row(0))
    click.echo(f"  missing values: {nulls:,}")


def _describe(dataset: Dataset) -> None:
    source = dataset.source
    state = "partial" if dataset.partial else "exact"
    click.echo(f"{dataset.name}: {state}, {dataset.features.height:,} rows in {dataset.path}")
    click.echo(f"  columns: {dataset.features.width}, D = {dataset.dimensions} (paper: {source.dimensions})")
    for name, found in dataset.counts().items():
        used = found if name == "normal" or source.cap is None else min(found, source.cap)
        capped = f" (drawn from {found:,})" if used < found else ""
        expected = source.table_1[name]
        remark = "" if used == expected else "  <- partial" if used < expected else "  <- more"
        click.echo(f"  {name + ':':<16}{used:>8,} of {expected:,}{capped}{remark}")
    click.echo(f"  licence: {dataset.licence}; {dataset.citation}")
