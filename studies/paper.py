"""The paper's published figures for the studies, from the benchmark's one data file."""

from dplan.benchmark import published

# Table 3: AUC-PR and AUC-ROC of DPLAN (Org) and its ablated variants, per data set.
ABLATION = {
    data_set: {
        method: (
            published.contents()["table3"]["auc_pr"]["data_sets"][data_set][method],
            published.contents()["table3"]["auc_roc"]["data_sets"][data_set][method],
        )
        for method in published.methods("table3")
    }
    for data_set in published.data_sets()
}
