"""The paper's data sets and scenarios: where they come from, how they are split, what is known in each.

The public names stand in ``__init__.pyi`` and are loaded when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
