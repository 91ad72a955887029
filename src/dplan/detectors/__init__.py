"""One file per detector, readable against its paper. `_base` holds what they share."""
