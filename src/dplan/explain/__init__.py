"""Why a row scores high: `effects`, and how each kind of score term is explained."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
