"""The rows that the experiments use: the paper's data sets, and tables of other collections."""
