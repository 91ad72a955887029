"""The paper's published figures for the studies, from the benchmark's one data file."""

from dplan.benchmark import published


def _areas(table: published.Table) -> dict[str, dict[str, tuple[float, float]]]:
    """Give AUC-PR and AUC-ROC by data set and method."""
    figures: dict[str, dict[str, tuple[float, float]]] = {}
    for data_set in published.data_sets():
        for method in published.methods(table):
            pair = [published.figure(table, measure, data_set, method) for measure in ("auc_pr", "auc_roc")]
            if pair[0] is not None and pair[1] is not None:
                figures.setdefault(data_set, {})[method] = (pair[0].mean, pair[1].mean)
    return figures


COMPETITORS = _areas("table2")  # DPLAN and its competitors
ABLATION = _areas("table3")  # DPLAN (the paper's Org) and its ablated variants
