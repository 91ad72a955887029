"""The report: one offline page about a scored table. `facts` computes its contents, `page` writes it."""
