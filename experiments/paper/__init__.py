"""The paper's tables and figures, next to the published results."""
