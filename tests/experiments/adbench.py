# ruff: noqa: NPY002 - ADGym drew from the global generator
"""Small tables in the form of ADBench's files, and ADGym's protocol as its authors wrote it."""

import numpy as np
from sklearn.model_selection import train_test_split


def write_table(folder, name, n_rows=1200, n_anomalies=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.zeros(n_rows, dtype=np.int32)
    y[rng.choice(n_rows, n_anomalies, replace=False)] = 1
    X = rng.normal(size=(n_rows, 3))
    X[y == 1, : 1 + seed % 3] += 2.5
    np.savez(folder / f"{name}.npz", X=X.astype(np.float32), y=y)


def split_with_the_global_generator(X, y, seed, n_labels):
    """Follow the published protocol word by word, with numpy's global generator."""
    before = np.random.get_state()
    try:
        np.random.seed(seed)
        if len(y) > 3000:
            np.random.seed(seed)
            drawn = np.random.choice(np.arange(len(y)), 3000, replace=False)
            X, y = X[drawn], y[drawn]
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, shuffle=True, stratify=y)
        labelled = np.random.choice(np.where(y_train == 1)[0], n_labels, replace=False)
    finally:
        np.random.set_state(before)
    labels = np.zeros(len(y_train), dtype=int)
    labels[labelled] = 1
    return X_train, labels, X_test, y_test
