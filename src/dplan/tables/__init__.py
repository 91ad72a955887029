"""From a table to a model and back to a table: reading, preparing, fitting, scoring in chunks, reasons, the report.

A `TableModel` is a fitted detector together with the preparation of its table. The public names are listed in
``__init__.pyi`` and loaded on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
