"""Compare the gradient used in training with finite differences of the loss."""

import numpy as np

from dplan._kernels import perceptron
from dplan.detectors._deep import backward_with_decay


def check(loss, sizes, rows, n_decayed, l2=0.01, seed=0):
    """Check a loss that maps outputs to (mean loss, gradient with respect to the outputs), in float64."""
    theta = perceptron.glorot_uniform(sizes, np.random.default_rng(seed)).astype(np.float64)
    rows = rows.astype(np.float64)

    def outputs(passed):
        return perceptron.passed_on(passed, sizes, len(sizes) - 2, len(rows))

    def forward(theta):
        return perceptron.forward(theta, sizes, rows, 0.0, np.random.default_rng(0))

    def objective(theta):
        kernels = perceptron.unflatten(theta, sizes)[:n_decayed]
        return loss(outputs(forward(theta)))[0] + l2 * sum((kernel**2).sum() for kernel, _ in kernels)

    gradient = np.zeros_like(theta)
    passed = forward(theta)
    mean_loss, slopes = loss(outputs(passed))
    penalty = backward_with_decay(theta, sizes, rows, passed, slopes, n_decayed, l2, gradient)
    np.testing.assert_allclose(mean_loss + penalty, objective(theta), rtol=1e-6)
    shift = 1e-6
    numeric = [
        (objective(theta + e) - objective(theta - e)) / (2 * shift) for e in np.eye(len(theta)) * shift
    ]
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, numeric, atol=1e-6, rtol=1e-5)
