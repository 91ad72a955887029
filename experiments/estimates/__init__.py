"""Estimates of ``dplan fit``: how often the interval of right alerts covers the truth."""
