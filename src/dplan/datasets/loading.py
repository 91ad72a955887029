"""Load a data set as a table of features and a column of classes."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from platformdirs import user_cache_path

from dplan.datasets.publishers import RAW_FILES, UNREADABLE, missing_raw_files, read_raw
from dplan.datasets.registry import Source, source_of
from dplan.exceptions import DownloadError, needs
from dplan.persistence.atomic import atomic_write, file_state
from dplan.text import first_line

__all__ = ["Dataset", "data_home", "find", "load"]

_RETRIES = 2  # of a download
_EMBEDDED = Path(__file__).with_name("covertype_mini.parquet")


@dataclass(frozen=True, eq=False)
class Dataset:
    """One data set in memory.

    Attributes
    ----------
    source : Source
        Facts about the data set: ``source.label``, ``source.table_1``, ``source.max_rows_per_class``, …
    features : polars.DataFrame
        The columns before preparation; text columns are `polars.Enum` with the levels of the whole table, so that
        one-hot encoding gives the same features for any choice of rows.
    labels : polars.Series
        The label column of the file; `classes` has the names.
    path : pathlib.Path
        The file or folder that was read.

    Examples
    --------
    >>> dataset = load("covertype-mini")
    >>> dataset.name, dataset.features.height, dataset.anomalies
    ('covertype-mini', 21600, ('cottonwood', 'douglas-fir'))
    """

    source: Source
    features: pl.DataFrame = field(repr=False)
    labels: pl.Series = field(repr=False)
    path: Path

    @property
    def name(self) -> str:
        """The argument of `load`."""
        return self.source.name

    @property
    def normal(self) -> tuple[str, ...]:
        """The normal classes."""
        return self.source.normal

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The anomaly classes of the paper; its experiments omit all other classes."""
        return self.source.anomalies

    @property
    def citation(self) -> str:
        """What to cite."""
        return self.source.citation

    @property
    def licence(self) -> str:
        """The terms of use."""
        return self.source.licence

    @cached_property
    def classes(self) -> pl.Series:
        """The class name of each row."""
        names = self.source.class_names
        return self.labels.replace_strict(names, return_dtype=pl.Enum(list(names.values()))).alias("class")

    @cached_property
    def partial(self) -> tuple[str, ...]:
        """What is missing compared with the paper's Table 1; empty if nothing is."""
        found = self.counts()
        sentences = [
            f"class {name}: {found[name]:,} of {expected:,} rows"
            for name, expected in self.source.table_1.items()
            if found[name] < expected
        ]
        if self.features.width < self.source.n_features:
            sentences.append(f"{self.features.width} of {self.source.n_features} features")
        return tuple(sentences)

    @property
    def dimensions(self) -> int:
        """Number of features after one-hot encoding, the paper's D.

        Examples
        --------
        >>> load("covertype-mini").dimensions
        54
        """
        return sum(
            len(dtype.categories) if isinstance(dtype, pl.Enum) else 1 for dtype in self.features.dtypes
        )

    @cached_property
    def class_numbers(self) -> NDArray[np.int64]:
        """Per row: 0 for normal, k for the k-th anomaly class, -1 for a class that the paper does not use."""
        numbers = dict.fromkeys(self.normal, 0) | {name: k for k, name in enumerate(self.anomalies, start=1)}
        by_label = {label: numbers.get(name, -1) for label, name in self.source.class_names.items()}
        return self.labels.replace_strict(by_label, return_dtype=pl.Int64).to_numpy()

    @cached_property
    def copy_groups(self) -> NDArray[np.int64]:
        """Per row: a number that rows with equal features share, counted in order of first appearance."""
        # A hash collision would only keep two different rows together in a split, which is harmless.
        _, first, inverse = np.unique(hashes(self.features), return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        groups: NDArray[np.int64] = rank[inverse]
        return groups

    @cached_property
    def sorted_hashes(self) -> NDArray[np.uint64]:
        """The sorted hashes of all rows, to look up whether a row is in the table."""
        return np.sort(hashes(self.features))

    def counts(self) -> dict[str, int]:
        """Rows per class, all normal classes together as ``"normal"``, without unused classes.

        Examples
        --------
        >>> load("covertype-mini").counts()
        {'normal': 20000, 'cottonwood': 400, 'douglas-fir': 1200}
        """
        numbers = self.class_numbers
        sizes = np.bincount(numbers[numbers >= 0], minlength=len(self.anomalies) + 1)
        return {name: int(size) for name, size in zip(("normal", *self.anomalies), sizes, strict=True)}


def data_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the data sets: ``$DPLAN_DATA_HOME``, else the platform's cache folder.

    The folder need not exist.

    Examples
    --------
    >>> data_home({"DPLAN_DATA_HOME": "my-data"}).name
    'my-data'
    >>> data_home({}).parts[-2:]
    ('dplan', 'data')
    """
    chosen = environ.get("DPLAN_DATA_HOME")
    return Path(chosen).expanduser() if chosen else user_cache_path("dplan") / "data"


def load(name: str, home: str | Path | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : {"unsw_nb15", "annthyroid", "har", "covertype", "covertype-mini"}
        ``covertype-mini`` comes with the package. The others are looked for in `home`: a prepared file such as
        ``har.parquet``, else the publisher's files, plain, gzipped or in a zip archive. If there are none, they are
        downloaded from the publisher, which needs the extra ``download``. The prepared file is then written, so that
        the next time is faster.
    home : path, optional
        The folder of the data sets; default ``$DPLAN_DATA_HOME``, else the platform's cache folder.

    Returns
    -------
    Dataset
        Features, classes, which of them are normal, citation, licence, and what is partial.

    Raises
    ------
    DownloadError
        If the data set is not there and cannot be downloaded. The publisher of UNSW-NB15 requires a form; the message
        says which files to put where.

    Examples
    --------
    >>> cover = load("covertype-mini")
    >>> cover.features.shape, cover.normal, cover.anomalies
    ((21600, 54), ('lodgepole-pine',), ('cottonwood', 'douglas-fir'))
    >>> cover.licence
    'CC BY 4.0'
    """
    source = source_of(name)
    folder = Path(home) if home is not None else data_home()
    place = find(name, folder)
    if place is None or place.is_dir():
        table = read_raw(name, folder) if place else _download(source, folder)
        prepared = folder / f"{name}.parquet"
        from_source(source, table, prepared)  # checks the classes before anything is written
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(prepared) as temporary:
                table.write_parquet(temporary, compression="zstd", compression_level=10)
        except (pl.exceptions.PolarsError, OSError):  # a full disk or a folder that cannot be written
            return from_source(source, table, folder)
        place = prepared
    # An experiment loads the same few tables thousands of times; a file that changed is read again.
    return _load_prepared(name, place, file_state(place))


def find(name: str, home: str | Path | None = None) -> Path | None:
    """Return where a data set is: its prepared file, else the folder with its publisher's files, else None.

    Examples
    --------
    >>> find("covertype-mini").name
    'covertype_mini.parquet'
    >>> find("har", home="no-such-folder") is None
    True
    """
    if name == "covertype-mini":
        return _EMBEDDED
    folder = Path(home) if home is not None else data_home()
    prepared = folder / f"{name}.parquet"
    if prepared.is_file():
        return prepared
    return None if missing_raw_files(name, folder) else folder


def _download(source: Source, home: Path) -> pl.DataFrame:
    """Download the archive of a data set from its publisher into a temporary folder, and read it."""
    if not source.archive:
        raise DownloadError(f"data set {source.name!r} is not in {home}. {_by_hand(source, home)}")
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise DownloadError(
            f"data set {source.name!r} is not in {home}, and {needs('downloading it', 'pooch')}. "
            f"{_by_hand(source, home)}"
        ) from error
    base, _, file = source.archive.rpartition("/")
    registry = {file: None}  # publishers give no checksums; rows, columns and classes are checked instead
    try:
        with tempfile.TemporaryDirectory() as folder:
            store = pooch.create(folder, f"{base}/", registry=registry, retry_if_failed=_RETRIES)
            store.fetch(file, processor=pooch.Unzip())
            return read_raw(source.name, folder)
    except (OSError, ValueError, *UNREADABLE) as error:
        raise DownloadError(
            f"{source.name} could not be downloaded from {source.archive}: {first_line(error)}. "
            f"{_by_hand(source, home)}"
        ) from error


def _by_hand(source: Source, home: Path) -> str:
    """Return instructions for getting a data set without a download by this package."""
    what, form = "the archive", ""
    if not source.archive:
        what, form = " and ".join(RAW_FILES[source.name]), " (its publisher requires a form)"
    return f"To get it by hand, download {what} from {source.page}{form} and extract it in {home}"


@lru_cache(maxsize=8)
def _load_prepared(name: str, place: Path, state: tuple[int, ...] | None) -> Dataset:
    try:
        table = pl.read_parquet(place, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(
            f"{place} cannot be read ({first_line(error)}): remove it, and it is made again"
        ) from error
    return from_source(source_of(name), table, place)


def hashes(features: pl.DataFrame) -> NDArray[np.uint64]:
    """Return a hash of each row; valid within one process only."""
    numbers: NDArray[np.uint64] = features.hash_rows().to_numpy()
    return numbers


def from_source(source: Source, table: pl.DataFrame, path: Path) -> Dataset:
    """Split the table of a data set into features and labels."""
    if source.label not in table.columns:
        raise ValueError(
            f"{path} has no column {source.label!r}, so it is not {source.name}; remove it, and it is made again"
        )
    features = table.drop(source.label, *source.ignored_columns, strict=False)
    texts = [name for name, dtype in features.schema.items() if dtype == pl.String]
    features = features.with_columns(
        features[name].cast(pl.Enum(features[name].unique().drop_nulls().sort())) for name in texts
    )
    labels = table[source.label]
    unknown = set(labels.unique()) - set(source.class_names)
    if unknown:
        raise ValueError(
            f"{path}: column {source.label!r} contains {', '.join(map(repr, unknown))}, "
            f"which is not a class of {source.name}"
        )
    return Dataset(source, features, labels, path)
