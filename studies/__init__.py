"""Scripts that measure how well detectors do, beside the paper's figures; each prints its table."""
