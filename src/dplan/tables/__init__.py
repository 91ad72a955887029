"""From a table to a model and back to a table: reading, preparing, fitting, scoring in chunks, reasons, the report.

`TableModel` is the heart: a detector together with the preparation of its table. The public names stand in
``__init__.pyi`` and are loaded when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
