"""Anomaly detection from a few known anomalies and many unlabelled rows.

The public names are listed in ``__init__.pyi`` and loaded on first use, to keep ``import dplan`` fast.
"""

import lazy_loader

from dplan._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
