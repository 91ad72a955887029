"""``dplan data``: list, download, prepare and check the paper's data sets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli._shared import DATA_HOME, FOLDER, echo, examples, progress_bar

if TYPE_CHECKING:
    from dplan.datasets.loading import Dataset

__all__ = ["data"]

_home_option = click.option("--home", type=FOLDER, help=DATA_HOME)


@click.group()
def data() -> None:
    """Download, prepare and check the paper's data sets."""


@data.command("list", epilog=examples("dplan data list --home my-data"))
@_home_option
def list_(home: Path | None) -> None:
    """List the data sets, with their counts compared with the paper's Table 1."""
    from dplan.datasets.loading import data_home, find, load
    from dplan.datasets.registry import CATALOG

    echo(f"Data home: {home or data_home()}")
    for name in CATALOG:
        echo("")
        if find(name, home) is None:
            echo(f"{name}: missing; run `dplan data fetch {name}`")
            continue
        try:
            dataset = load(name, home)
        except ValueError as error:
            echo(f"{name}: damaged; {error}")
            continue
        _describe(dataset)


@data.command(epilog=examples("dplan data fetch annthyroid", "dplan data fetch covertype --home my-data"))
@click.argument("name")
@_home_option
@click.option(
    "--mirror", metavar="URL", help="Download the archive from this folder instead of the publisher's site."
)
@click.option("--sha256", metavar="HEX", help="Expected checksum of the archive.")
def fetch(name: str, home: Path | None, mirror: str | None, sha256: str | None) -> None:
    """Download data set NAME from its publisher and prepare it.

    To resume an interrupted download, run the same command again. If the publisher requires a form, the error explains
    how to download the files by hand.
    """
    from dplan.datasets import download

    with progress_bar(of_bytes=True) as progress:
        dataset = download.fetch(name, home, mirror=mirror, sha256=sha256, progress=partial(progress, name))
    _describe(dataset)


@data.command(epilog=examples("dplan data prepare unsw_nb15 --from ~/Downloads"))
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


@data.command(epilog=examples("dplan data check covertype"))
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
        echo(f"  sha256: {edition}")
    nulls = sum(dataset.features.null_count().row(0))
    echo(f"  missing values: {nulls:,}")


def _describe(dataset: Dataset) -> None:
    source = dataset.source
    state = "incomplete" if dataset.partial else "complete"
    echo(f"{dataset.name}: {state}, {dataset.features.height:,} rows in {dataset.path}")
    echo(f"  columns: {dataset.features.width}, D = {dataset.dimensions} (paper: {source.dimensions})")
    for name, found in dataset.counts().items():
        used = (
            found
            if name == "normal" or source.max_rows_per_class is None
            else min(found, source.max_rows_per_class)
        )
        capped = f" (drawn from {found:,})" if used < found else ""
        expected = source.table_1[name]
        remark = "" if used == expected else "  <- incomplete" if used < expected else "  <- more"
        echo(f"  {name + ':':<16}{used:>8,} of {expected:,}{capped}{remark}")
    echo(f"  licence: {dataset.licence}; {dataset.citation}")
