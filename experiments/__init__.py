"""The paper's experiments and others: suites, a resumable runner, and pages. Run from the folder of the repository.

========================  =======================================================================================
`suites`                  the experiments as lists of cells; each folder has the scenarios of its suites
`methods`                 the methods by name: detectors, variants of DPLAN, others to compare with
`data`                    the data behind a scenario id, and tables of other collections
`cells`                   running and evaluating one cell
`journal`                 one JSON line per finished cell; survives crashes and full disks
`runner`                  running unfinished cells, in worker processes of joblib
`configuration`           what results depend on: library versions, data, machine
`results`                 reading a journal back: means and deviations over the runs
`statistics`              Wilcoxon, Friedman and Nemenyi tests, correlations
`checking`                checking a results file
`pages`                   the report as one HTML page and as Markdown
`fields`, `charts`        comparing methods over tables; what all pages show in the same way
`paper`                   the paper's tables and figures, next to the published results
`adgym`, `unknown`        few labels on published splits; anomalies of unknown classes
`discovery`               simulated reviews: what is found
`after_review`            what verdicts teach a detector about rows that nobody has judged
`estimates`               whether as many alerts are right as ``dplan fit`` expects
`ensemble`                what the parts of DPLANEnsemble are worth
========================  =======================================================================================

The journals of the results in the docs are in the folder ``results``.
"""
