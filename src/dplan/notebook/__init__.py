"""What a notebook shows: alerts as cards, and a model as a table.

JupyterLab does not trust a notebook that somebody else ran: it removes style sheets, scripts, SVG and frames. So
everything here is made of tables and boxes with styles of their own, in the colours of the page around them, which
suits light and dark themes.
"""
