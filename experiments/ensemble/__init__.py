"""What the parts of DPLANEnsemble are worth, and the page about it."""
