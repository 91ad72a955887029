"""Getting a data set from its publisher and turning it into the prepared file that `load` reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dplan.datasets.download import DownloadError, Progress, download, sha256_of
from dplan.datasets.home import data_home
from dplan.datasets.loading import Dataset, from_source
from dplan.datasets.publishers import read_raw
from dplan.datasets.registry import source_of
from dplan.persistence.atomic import written_whole

__all__ = ["PUBLISHERS", "Publisher", "fetch", "prepare"]


@dataclass(frozen=True)
class Publisher:
    """Where a data set comes from.

    Attributes
    ----------
    page : str
        The page for people.
    base_url, file : str
        The archive to download; empty where the publisher wants a form filled in.
    """

    page: str
    base_url: str = ""
    file: str = ""


# No checksums: the publisher gives none, and what has arrived is judged by its rows, columns and class
# counts.
PUBLISHERS: Mapping[str, Publisher] = {
    "unsw_nb15": Publisher("https://research.unsw.edu.au/projects/unsw-nb15-dataset"),
    "annthyroid": Publisher(
        "https://archive.ics.uci.edu/dataset/102/thyroid+disease",
        "https://archive.ics.uci.edu/static/public/102/",
        "thyroid+disease.zip",
    ),
    "har": Publisher(
        "https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
        "https://archive.ics.uci.edu/static/public/240/",
        "human+activity+recognition+using+smartphones.zip",
    ),
    "covertype": Publisher(
        "https://archive.ics.uci.edu/dataset/31/covertype",
        "https://archive.ics.uci.edu/static/public/31/",
        "covertype.zip",
    ),
}


def fetch(
    name: str,
    home: str | Path | None = None,
    *,
    mirror: str | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Download a data set from its publisher and prepare it.

    Parameters
    ----------
    name : {"annthyroid", "har", "covertype"}
        The data set; the publisher of UNSW-NB15 wants a form filled in, and the error says what to do by
        hand.
    home : path, optional
        The folder of the data sets; default ``$DPLAN_DATA_HOME``, else the platform's cache folder.
    mirror : str, optional
        The address of another folder that has the publisher's archive.
    sha256 : str, optional
        The checksum that the archive must have, if you know it.
    progress : callable, optional
        Called as ``progress(bytes_so_far, bytes_in_all_or_None)``.

    Returns
    -------
    Dataset
        What is now in the data home.
    """
    folder = Path(home) if home is not None else data_home()
    if name not in PUBLISHERS:
        source_of(name)  # an unknown name gets an error of its own
        raise ValueError(f"{name!r} comes with the package, there is nothing to fetch")
    publisher = PUBLISHERS[name]
    if not publisher.file:
        raise DownloadError(by_hand(name, folder))
    url = f"{(mirror or publisher.base_url).rstrip('/')}/{publisher.file}"
    archive = folder / "downloads" / name / publisher.file
    if not archive.is_file() or sha256 not in (None, sha256_of(archive)):
        try:
            download(url, archive, sha256=sha256, progress=progress)
        except DownloadError as error:
            raise DownloadError(f"{error}\n{by_hand(name, folder)}") from error
    try:
        return prepare(name, archive.parent, folder)
    except (ValueError, FileNotFoundError) as error:
        archive.unlink()
        raise DownloadError(f"what {url} gave is not {name}, so it was removed: {error}") from error


def prepare(name: str, source: str | Path, home: str | Path | None = None) -> Dataset:
    """Read the publisher's files from a folder and write the prepared file into the data home.

    Parameters
    ----------
    name : {"unsw_nb15", "annthyroid", "har", "covertype"}
        The data set.
    source : path
        The folder with the publisher's files, plain, gzipped or in zip archives.
    home : path, optional
        The folder of the data sets; default ``$DPLAN_DATA_HOME``, else the platform's cache folder.

    Returns
    -------
    Dataset
        What was written.
    """
    folder = Path(home) if home is not None else data_home()
    table = read_raw(name, source)
    target = folder / f"{name}.parquet"
    dataset = from_source(source_of(name), table, target)  # checks the classes before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(table, target)
    return dataset


def write_parquet(table: pl.DataFrame, target: Path) -> None:
    """Write a table so that `target` is the old file or the new one, never half of one."""
    try:
        with written_whole(target) as temporary:
            table.write_parquet(temporary, compression="zstd", compression_level=10)
    except pl.exceptions.PolarsError as error:  # which is how polars tells of a full disk
        raise OSError(f"{target} cannot be written: {error}") from error


def by_hand(name: str, home: Path) -> str:
    """Say how to get a data set without `fetch`.

    Examples
    --------
    >>> print(by_hand("annthyroid", Path("my-data")))
    By hand: download it from https://archive.ics.uci.edu/dataset/102/thyroid+disease
    then run `dplan data prepare annthyroid --from FOLDER` with the folder that it lies in.
    """
    page = PUBLISHERS[name].page
    if name == "unsw_nb15":
        return (
            f"The publisher of UNSW-NB15 lets people download it after a form: open {page}\n"
            "and take UNSW_NB15_training-set.csv and UNSW_NB15_testing-set.csv\n"
            "(folder 'Training and Testing Sets'),\n"
            f"then run `dplan data prepare {name} --from FOLDER` with the folder that they lie in."
        )
    return (
        f"By hand: download it from {page}\n"
        f"then run `dplan data prepare {name} --from FOLDER` with the folder that it lies in."
    )
