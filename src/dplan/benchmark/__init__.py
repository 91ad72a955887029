"""The paper's experiments in one command: suites, a runner that can be killed, and a report.

========================  =====================================================================
`published`               the paper's own figures, from one data file
`suites`                  which experiments there are, and the cells that each consists of
`cells`                   running one cell and measuring it
`journal`                 one JSON line per finished cell, safe against kills and full disks
`running`, `backends`     running all open cells, here or on a cluster
`statistics`              means, Wilcoxon, Friedman and Nemenyi
`results`                 reading a journal back as tables of figures
`summary`                 the report's first chapter, from `agreement` and `trends`; then come `notes` by hand
`tables`, `chapters`      the rest of the report's contents, drawn by `drawing`
`pages`                   the report as Markdown and as one HTML page
========================  =====================================================================
"""
