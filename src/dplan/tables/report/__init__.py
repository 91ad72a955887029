"""The report: one offline page about a scored table. `facts` computes, `svg` draws, `page` writes."""
