"""Metadata of the data sets, from the paper and the publishers: classes, counts, licences, addresses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["CATALOG", "Source", "source_of"]


@dataclass(frozen=True)
class Source:
    """Metadata of a data set.

    Attributes
    ----------
    name : str
        The argument of `dplan.datasets.load`.
    label : str
        The column with the class.
    class_names : mapping
        Value of the label column → class name (the paper's, in lower case).
    normal : tuple of str
        Names of the normal classes.
    anomalies : tuple of str
        The anomaly classes, in the paper's order; class k of a scenario is the k-th of them.
    table_1 : mapping
        Rows per class in the paper's Table 1; ``"normal"`` counts all normal classes together.
    max_rows_per_class : int or None
        Maximum number of rows used of each anomaly class (appendix of the paper).
    n_features : int
        Columns before one-hot encoding.
    dimensions : int
        The paper's D, after one-hot encoding.
    ignored_columns : tuple of str
        Columns that are neither features nor the label.
    sha256 : str or None
        Checksum of the prepared Parquet file that the project's results were produced with.
    page, archive : str
        The publisher's web page, and the address of the archive, empty if the publisher requires a form. Publishers
        give no checksums, so downloads are checked by rows, columns and classes.
    citation, licence : str
        What to cite, and the terms of use.
    version : int
        Increased by hand when the same file and seed give different rows or features; recorded cells depend on it.
    """

    name: str
    label: str
    class_names: Mapping[str, str] | Mapping[int, str]
    normal: tuple[str, ...]
    anomalies: tuple[str, ...]
    table_1: Mapping[str, int]
    n_features: int
    dimensions: int
    citation: str
    licence: str
    max_rows_per_class: int | None = None
    ignored_columns: tuple[str, ...] = ()
    sha256: str | None = None
    page: str = ""
    archive: str = ""
    version: int = 1


_UNSW_NB15 = Source(
    name="unsw_nb15",
    label="attack_cat",
    class_names={
        "Normal": "normal",
        "Analysis": "analysis",
        "Backdoor": "backdoor",
        "DoS": "dos",
        "Exploits": "exploits",
        "Fuzzers": "fuzzers",
        "Generic": "generic",
        "Reconnaissance": "reconnaissance",
        "Shellcode": "shellcode",
        "Worms": "worms",
    },
    normal=("normal",),
    anomalies=("analysis", "backdoor", "dos", "exploits", "fuzzers", "generic", "reconnaissance"),
    table_1={
        "normal": 93_000,
        "analysis": 2_677,
        "backdoor": 2_329,
        "dos": 3_000,
        "exploits": 3_000,
        "fuzzers": 3_000,
        "generic": 3_000,
        "reconnaissance": 3_000,
    },
    max_rows_per_class=3_000,
    n_features=42,
    dimensions=196,
    ignored_columns=("id", "label", "partition"),
    citation="N. Moustafa and J. Slay, UNSW-NB15, UNSW Canberra, 2015",
    licence="free for academic research; commercial use by agreement with the authors",
    page="https://research.unsw.edu.au/projects/unsw-nb15-dataset",
    sha256="ace7f21c7eff8494445184048854d34751adb4975adb9ca86542f0f8134f0fc9",
)

_ANNTHYROID = Source(
    name="annthyroid",
    label="class",
    class_names={"normal": "normal", "hypothyroid": "hypothyroid", "subnormal": "subnormal"},
    normal=("normal",),
    anomalies=("hypothyroid", "subnormal"),
    table_1={"normal": 6_666, "hypothyroid": 166, "subnormal": 368},
    n_features=21,
    dimensions=21,
    citation="R. Quinlan, Thyroid Disease (the 'ann' version), UCI Machine Learning Repository, 1987",
    licence="CC BY 4.0",
    page="https://archive.ics.uci.edu/dataset/102/thyroid+disease",
    archive="https://archive.ics.uci.edu/static/public/102/thyroid+disease.zip",
    sha256="a0b6bd2a03250674eb4bd3c43ee17fdcb69a3212220500324a03de9db0616b4e",
)

_HAR = Source(
    name="har",
    label="activity",
    class_names={
        "WALKING": "walking",
        "SITTING": "sitting",
        "STANDING": "standing",
        "LAYING": "laying",
        "WALKING_DOWNSTAIRS": "downstairs",
        "WALKING_UPSTAIRS": "upstairs",
    },
    normal=("walking", "sitting", "standing", "laying"),
    anomalies=("downstairs", "upstairs"),
    table_1={"normal": 7_349, "downstairs": 150, "upstairs": 150},
    max_rows_per_class=150,
    n_features=561,
    dimensions=561,
    citation="D. Anguita et al., Human Activity Recognition Using Smartphones, ESANN 2013",
    licence="CC BY 4.0",
    page="https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
    archive="https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
    sha256="ca0570c6c9bc1cb01fdcefba8db31fc57df000859251af233a29c5b151e4cbdd",
)

_COVERTYPE = Source(
    name="covertype",
    label="cover_type",
    class_names={
        1: "spruce-fir",
        2: "lodgepole-pine",
        3: "ponderosa-pine",
        4: "cottonwood",
        5: "aspen",
        6: "douglas-fir",
        7: "krummholz",
    },
    normal=("lodgepole-pine",),
    anomalies=("cottonwood", "douglas-fir"),
    table_1={"normal": 283_301, "cottonwood": 2_747, "douglas-fir": 17_367},
    n_features=54,
    dimensions=54,
    citation="J. Blackard, D. Dean and C. Anderson, Covertype, Colorado State University and US Forest Service, 1998",
    licence="CC BY 4.0",
    page="https://archive.ics.uci.edu/dataset/31/covertype",
    archive="https://archive.ics.uci.edu/static/public/31/covertype.zip",
    sha256="a508be10475df97625d44d9eb149c7c4dd45a8a1033fa9d4967663d98d8ba83c",
)

_COVERTYPE_MINI = replace(
    _COVERTYPE,
    name="covertype-mini",
    citation=_COVERTYPE.citation + " (a random sample that comes with this package)",
    page="",
    archive="",
    sha256=None,
)

# By name, in the paper's order.
CATALOG = {s.name: s for s in (_UNSW_NB15, _ANNTHYROID, _HAR, _COVERTYPE, _COVERTYPE_MINI)}


def source_of(name: str) -> Source:
    """Return the metadata of a data set.

    Examples
    --------
    >>> source_of("har").anomalies
    ('downstairs', 'upstairs')
    >>> source_of("mnist")
    Traceback (most recent call last):
    ...
    ValueError: unknown data set 'mnist'; choose from unsw_nb15, annthyroid, har, ...
    """
    if name not in CATALOG:
        raise ValueError(f"unknown data set {name!r}; choose from {', '.join(CATALOG)}")
    return CATALOG[name]
