"""The detectors, one per file; `_registry` lists them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["variants"])
