"""``dplan data``: list, download, prepare and check the paper's data sets.

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
    help="Folder with the data sets.  [default: $DPLAN_DATA_HOME, else the platform's cache folder]",
)


@click.group()
def data() -> None:
    """Fetch, prepare and check the paper's data sets."""


@data.command("list", epilog="\b\nExample:\n  dplan data list --home my-data")
@_home_option
def list_(home: Path | None) -> None:
    """List the data sets, which of them are missing, and their counts compared with the paper's Table 1."""
    from dplan.datasets.loading import data_home, find, load
    from dplan.datasets.registry import CATALOG

    click.echo(f"Data home: {home or data_home()}")
    for name in CATALOG:
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
@click.option("--mirror", metavar="URL", help="Address of another folder that has the publisher's archive.")
@click.option("--sha256", metavar="HEX", help="Expected checksum of the archive.")
def fetch(name: str, home: Path | None, mirror: str | None, sha256: str | None) -> None:
    """Download data set NAME from its publisher and prepare it.

    Running the same command again resumes an interrupted download. If the publisher requires a form, this
    explains what to do by hand.
    """
    from dplan.datasets import download

    with progress_bar(of_bytes=True) as progress:
        dataset = download.fetch(name, home, mirror=mirror, sha256=sha256, progress=partial(progress, name))
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
    """Convert the publisher's files of data set NAME into the prepared file."""
    from dplan.datasets import download

    dataset = download.prepare(name, source, home)
    _describe(dataset)


@data.command(epilog="\b\nExample:\n  dplan data check covertype")
@click.argument("name")
@_home_option
def check(name: str, home: Path | None) -> None:
    """Check that data set NAME can be read, and compare it with the paper's Table 1.

    The exit code is 0 if it can be read, even if it is partial, and 1 if it is missing or damaged.
    """
    from dplan.datasets.download import sha256_of
    from dplan.datasets.loading import load

    dataset = load(name, home)
    _describe(dataset)
    expected = dataset.source.sha256
    if expected is not None and dataset.path.is_file():
        same = sha256_of(dataset.path) == expected
        edition = "the file that the project's results were produced with" if same else "a file of your own"
        click.echo(f"  sha256: {edition}")
    nulls = sum(dataset.features.null_count().row(0))
    click.echo(f"  missing values: {nulls:,}")


def _describe(dataset: Dataset) -> None:
    source = dataset.source
    state = "incomplete" if dataset.partial else "complete"
    click.echo(f"{dataset.name}: {state}, {dataset.features.height:,} rows in {dataset.path}")
    click.echo(f"  columns: {dataset.features.width}, D = {dataset.dimensions} (paper: {source.dimensions})")
    for name, found in dataset.counts().items():
        used = found if name == "normal" or source.cap is None else min(found, source.cap)
        capped = f" (drawn from {found:,})" if used < found else ""
        expected = source.table_1[name]
        remark = "" if used == expected else "  <- incomplete" if used < expected else "  <- more"
        click.echo(f"  {name + ':':<16}{used:>8,} of {expected:,}{capped}{remark}")
    click.echo(f"  licence: {dataset.licence}; {dataset.citation}")
