"""The paper's experiments in one command: suites, a runner that survives kills, and a report.

========================  =====================================================================
`published`               the paper's own results, from one data file
`suites`                  the experiments, and the cells that each consists of
`cells`                   running and evaluating one cell
`journal`                 one JSON line per finished cell, safe against kills and full disks
`runner`, `backends`      running all unfinished cells, here or on a cluster
`configuration`           what results depend on: library versions, data, machine
`progress`                showing progress in the terminal
`results`                 reading a journal back: means and deviations over the runs
`statistics`              Wilcoxon, Friedman and Nemenyi tests
`report`                  the report as one HTML page and as Markdown
========================  =====================================================================
"""
