"""The temperature from summed log-likelihoods against optimisers that hold all logits."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax

from personalization.calibration.temperature import fit_temperature, log_likelihoods


def draw(seed, n, classes, true_temperature):
    """Logits that tell the truth once they are divided by `true_temperature`."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(0, 2, (n, classes))
    return honest * true_temperature, (honest + rng.gumbel(size=(n, classes))).argmax(axis=1)


def fitted(logits, labels, clients):
    """Ours, from the sums of so many clients."""
    parts = np.array_split(np.arange(len(labels)), clients)
    return fit_temperature(sum(log_likelihoods(logits[part], labels[part]) for part in parts), len(labels))


def loss(logits, labels, temperature):
    """Mean cross-entropy in nats."""
    return -log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels].mean()


NEAR = 1 / 3
"""Nats of all pictures together, 0.8 of a standard error: each client's sum is rounded by itself."""

DRAWS = given(
    seed=st.integers(0, 2**32), n=st.integers(60, 400), classes=st.integers(2, 8), truth=st.floats(0.5, 5)
)


@DRAWS
@settings(max_examples=8)
def test_as_torchs_lbfgs_on_the_cross_entropy(seed, n, classes, truth):
    """The usual way of Guo et al. 2017: one parameter, cross-entropy, L-BFGS."""
    logits, labels = draw(seed, n, classes, truth)
    scores, targets = torch.from_numpy(logits), torch.from_numpy(labels)
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([log_temperature], max_iter=30, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = torch.nn.functional.cross_entropy(scores / log_temperature.exp(), targets)
        value.backward()
        return value

    optimiser.step(closure)
    exact = float(log_temperature.detach().exp())
    ours = fitted(logits, labels, clients=3)
    assert len(labels) * (loss(logits, labels, ours) - loss(logits, labels, exact)) < NEAR


@DRAWS
@settings(max_examples=12)
def test_as_scipys_bfgs_on_the_inverse_temperature(seed, n, classes, truth):
    """The log-likelihood is concave in 1/T, so whatever optimiser finds the one maximum."""
    logits, labels = draw(seed, n, classes, truth)
    found = minimize(lambda inverse: loss(logits, labels, 1 / inverse[0]), x0=[1.0], bounds=[(0.05, 20)])
    assert found.success
    ours = fitted(logits, labels, clients=5)
    assert len(labels) * (loss(logits, labels, ours) - loss(logits, labels, 1 / found.x[0])) < NEAR
