"""The paper's experiments and other benchmarks: suites, a resumable runner, and a report.

========================  =====================================================================
`published`               the published results
`suites`                  the experiments as lists of cells
`methods`, `rivals`       the methods by name: detectors, variants of DPLAN, others to compare with
`sources`                 the data behind a scenario id
`cells`                   running and evaluating one cell
`discovery`               running a simulated review
`journal`                 one JSON line per finished cell; survives crashes and full disks
`runner`, `backends`      running unfinished cells, here or on a cluster
`configuration`           what results depend on: library versions, data, machine
`progress`                showing progress in the terminal
`results`                 reading a journal back: means and deviations over the runs
`statistics`              Wilcoxon, Friedman and Nemenyi tests, correlations
`checking`                checking a results file
`report`                  the report as one HTML page and as Markdown
========================  =====================================================================
"""
