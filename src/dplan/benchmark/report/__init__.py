"""The report of a benchmark: `tables` and `findings` compute it from the journal, `pages` writes it."""
