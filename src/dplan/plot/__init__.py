"""Pictures for notebooks, drawn with matplotlib, which is loaded on use.

Every function draws on ``ax``, or on a new figure, and returns the ``Axes``, to add to the picture or to save it with
``ax.figure.savefig("picture.png")``. A model is a `TableModel`, a `TableDetector` or, where rows are numbers, a
detector. The public names are listed in ``__init__.pyi`` and loaded on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
