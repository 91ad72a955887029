"""The report: one offline page about a scored table. `data` computes its contents, `page` writes it."""
