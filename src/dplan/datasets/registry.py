"""What is known of the four data sets without reading them: the paper's Table 1, names, licences, files.

Everything here is a fact from the paper, from a publisher's page or from the shape of a file; nothing is
computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CATALOG", "Source", "known_names", "source_of"]


@dataclass(frozen=True)
class Source:
    """One data set: how its classes are read and what the paper's Table 1 says of it.

    Attributes
    ----------
    name : str
        The name that `dplan.datasets.load` takes.
    label : str
        The column that holds the class.
    class_names : mapping
        The value in the label column → the name of the class used here (the paper's, in lower case).
    normal : tuple of str
        The class names that are normal.
    anomalies : tuple of str
        The anomaly classes, in the paper's order; class number k of a scenario is the k-th of them.
    table_1 : mapping
        Rows per class in the paper's Table 1; ``"normal"`` counts all normal classes together.
    cap : int or None
        At most so many rows of an anomaly class are used (paper, appendix).
    n_features : int
        Columns before one-hot encoding.
    dimensions : int
        The paper's D, after one-hot encoding.
    aside : tuple of str
        Columns that are neither features nor the label.
    sha256 : str or None
        Of the prepared Parquet file that the project's own figures rest on.
    citation, licence : str
        Whom to name, and what is allowed.
    version : int
        Raised by hand when the same file and seed give other rows or features: recorded benchmark cells belong to it.
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
    cap: int | None = None
    aside: tuple[str, ...] = ()
    sha256: str | None = None
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
    cap=3_000,
    n_features=42,
    dimensions=196,
    aside=("id", "label", "partition"),
    citation="N. Moustafa and J. Slay, UNSW-NB15, UNSW Canberra, 2015",
    licence="free for academic research; commercial use by agreement with the authors",
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
    cap=150,
    n_features=561,
    dimensions=561,
    citation="D. Anguita et al., Human Activity Recognition Using Smartphones, ESANN 2013",
    licence="CC BY 4.0",
    sha256="ca0570c6c9bc1cb01fdcefba8db31fc57df000859251af233a29c5b151e4cbdd",
)

_COVER_TYPES = {
    1: "spruce-fir",
    2: "lodgepole-pine",
    3: "ponderosa-pine",
    4: "cottonwood",
    5: "aspen",
    6: "douglas-fir",
    7: "krummholz",
}
_COVERTYPE_CITATION = (
    "J. Blackard, D. Dean and C. Anderson, Covertype, Colorado State University and US Forest Service, 1998"
)

_COVERTYPE = Source(
    name="covertype",
    label="cover_type",
    class_names=_COVER_TYPES,
    normal=("lodgepole-pine",),
    anomalies=("cottonwood", "douglas-fir"),
    table_1={"normal": 283_301, "cottonwood": 2_747, "douglas-fir": 17_367},
    n_features=54,
    dimensions=54,
    citation=_COVERTYPE_CITATION,
    licence="CC BY 4.0",
    sha256="a508be10475df97625d44d9eb149c7c4dd45a8a1033fa9d4967663d98d8ba83c",
)

_COVERTYPE_MINI = Source(
    name="covertype-mini",
    label="cover_type",
    class_names=_COVER_TYPES,
    normal=("lodgepole-pine",),
    anomalies=("cottonwood", "douglas-fir"),
    table_1=_COVERTYPE.table_1,
    n_features=54,
    dimensions=54,
    citation=_COVERTYPE_CITATION + " (a random cut that comes with this package)",
    licence="CC BY 4.0",
)

CATALOG = {s.name: s for s in (_UNSW_NB15, _ANNTHYROID, _HAR, _COVERTYPE, _COVERTYPE_MINI)}


def known_names() -> tuple[str, ...]:
    """Names that `load` takes, in the paper's order.

    Examples
    --------
    >>> known_names()
    ('unsw_nb15', 'annthyroid', 'har', 'covertype', 'covertype-mini')
    """
    return tuple(CATALOG)


def source_of(name: str) -> Source:
    """Look a data set up by its name, or say which names there are.

    Examples
    --------
    >>> source_of("har").anomalies
    ('downstairs', 'upstairs')
    >>> source_of("mnist")
    Traceback (most recent call last):
    ...
    ValueError: no data set is called 'mnist'; choose one of unsw_nb15, annthyroid, har, ...
    """
    if name not in CATALOG:
        raise ValueError(f"no data set is called {name!r}; choose one of {', '.join(CATALOG)}")
    return CATALOG[name]
