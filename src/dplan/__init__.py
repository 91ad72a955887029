"""Anomaly detection from a few known anomalies and many unlabelled rows.

The public names stand in ``__init__.pyi`` and are loaded on first use, so that ``import dplan`` stays quick.
"""

import lazy_loader

from dplan._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
