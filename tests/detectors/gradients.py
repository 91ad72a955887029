"""The gradient that training follows, against finite differences of what it minimises."""

import numpy as np

from dplan._kernels import perceptron


def check(loss, sizes, rows, n_decayed, l2=0.01, seed=0):
    """Compare both for a loss that maps outputs to (mean loss, its gradient by the outputs), all in float64."""
    theta = perceptron.glorot_uniform(sizes, np.random.default_rng(seed)).astype(np.float64)
    rows = rows.astype(np.float64)

    def objective(theta):
        passed = perceptron.forward(theta, sizes, rows, 0.0, None)
        kernels = perceptron.unflatten(theta, sizes)[:n_decayed]
        return loss(passed[-1])[0] + l2 * sum((kernel**2).sum() for kernel, _ in kernels)

    gradient = np.zeros_like(theta)
    passed = tuple(perceptron.forward(theta, sizes, rows, 0.0, None))
    mean_loss, slopes = loss(passed[-1])
    penalty = perceptron.backward_with_decay(theta, sizes, passed, slopes, n_decayed, l2, gradient)
    np.testing.assert_allclose(mean_loss + penalty, objective(theta), rtol=1e-6)
    shift = 1e-6
    numeric = [
        (objective(theta + e) - objective(theta - e)) / (2 * shift) for e in np.eye(len(theta)) * shift
    ]
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, numeric, atol=1e-6, rtol=1e-5)
