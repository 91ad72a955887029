"""Where data sets are looked for."""

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_path

__all__ = ["data_home"]


def data_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Give the folder of the data sets: ``$DPLAN_DATA_HOME``, else the platform's cache folder.

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
