"""A Gaussian mixture fitted by gradient descent, its objective written as loops over numbers.

The objective is ADBench's: the log-likelihood of the points with a Wishart prior on the inverse
covariances.  Component k has the factor Q_k, lower triangular with diagonal exp(q_k); a row of ``icf`` holds
q_k, then the strictly lower entries by columns.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from examples.training import Run, cli, compare, momentum, train
from jitad import jit

Floats = NDArray[np.float64]


class Mixture(NamedTuple):
    alphas: Floats      # (K,) log weights, up to a constant
    means: Floats       # (K, d)
    icf: Floats         # (K, d + d (d - 1) / 2)


class Prior(NamedTuple):
    gamma: float
    m: int


def logsumexp(v: Floats) -> float:
    biggest = np.max(v)
    total = 0.0
    for k in range(len(v)):
        total += math.exp(v[k] - biggest)
    return biggest + math.log(total)


def log_wishart(icf: Floats, d: int, prior: Prior) -> float:
    """The Wishart term of all components."""
    components = len(icf)
    dof = d + prior.m + 1
    log_gamma_d = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(d):
        log_gamma_d += math.lgamma(0.5 * (dof - j))
    constant = dof * d * (math.log(prior.gamma) - 0.5 * math.log(2.0)) - log_gamma_d
    total = 0.0
    for k in range(components):
        squares = 0.0
        logs = 0.0
        for j in range(d):
            squares += math.exp(2.0 * icf[k, j])
            logs += icf[k, j]
        for j in range(d, icf.shape[1]):
            squares += icf[k, j] ** 2
        total += 0.5 * prior.gamma ** 2 * squares - prior.m * logs
    return total - components * constant


def log_likelihood(mixture: Mixture, points: Floats) -> float:
    alphas, means, icf = mixture
    n, d = points.shape
    components = len(alphas)
    diagonals = np.exp(icf[:, :d])
    log_determinants = np.sum(icf[:, :d], axis=1)

    likelihood = 0.0
    for i in range(n):
        terms = np.empty(components)
        for k in range(components):
            centred = np.empty(d)
            scaled = np.empty(d)                            # Q_k (x_i − μ_k)
            for j in range(d):
                centred[j] = points[i, j] - means[k, j]
                scaled[j] = diagonals[k, j] * centred[j]
            for j in range(d):
                column = d + j * (2 * d - j - 1) // 2 - (j + 1)     # column + r: the entry of row r
                for r in range(j + 1, d):
                    scaled[r] += icf[k, column + r] * centred[j]
            square = 0.0
            for j in range(d):
                square += scaled[j] * scaled[j]
            terms[k] = alphas[k] + log_determinants[k] - 0.5 * square
        likelihood += logsumexp(terms)
    constant = -0.5 * n * d * math.log(2.0 * math.pi)
    return constant + likelihood - n * logsumexp(alphas)


def gmm_objective(mixture: Mixture, points: Floats, prior: Prior) -> float:
    """The objective of ADBench: the log-likelihood plus the Wishart term."""
    return log_likelihood(mixture, points) + log_wishart(mixture.icf, points.shape[1], prior)


@jit(grad=True)
def loss(mixture: Mixture, points: Floats, prior: Prior) -> float:
    """The loss of a fit, per point; the Wishart term regularises the factors."""
    return (log_wishart(mixture.icf, points.shape[1], prior) - log_likelihood(mixture, points)) / len(points)


# --- data and training ----------------------------------------------------------------------------

def load_adbench(path: Path) -> tuple[Mixture, Floats, Prior]:
    """An instance in ADBench's format."""
    numbers = path.read_text().split()
    d, components, n = (int(v) for v in numbers[:3])
    width = d + d * (d - 1) // 2
    sizes = np.cumsum([components, components * d, components * width, n * d])
    alphas, means, icf, points, last = np.split(np.array(numbers[3:], float), sizes)
    mixture = Mixture(alphas, means.reshape(components, d), icf.reshape(components, width))
    return mixture, points.reshape(n, d), Prior(float(last[0]), int(last[1]))


def digits(components: int = 10, dimensions: int = 8) -> tuple[Mixture, Floats, Prior]:
    """scikit-learn's 1,797 handwritten digits on their first principal components, and a random start."""
    from sklearn.datasets import load_digits

    images = load_digits().data
    centred = images - images.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:dimensions]
    points = centred @ axes.T
    points = np.ascontiguousarray(points / points.std(axis=0))
    rng = np.random.default_rng(0)
    means = points[rng.choice(len(points), components, replace=False)]
    width = dimensions + dimensions * (dimensions - 1) // 2
    return Mixture(np.zeros(components), means, np.zeros((components, width))), points, Prior(1.0, 0)


def run(data: Path | None = None, steps: int = 1500) -> Run:
    """Fit; ``data`` is a folder that holds ``adbench/gmm``."""
    file = data / "adbench/gmm/gmm_d10_K25.txt" if data else None
    use_file = file is not None and file.exists()
    mixture, points, prior = load_adbench(file) if file and use_file else digits()
    velocity = Mixture(*(np.zeros_like(a) for a in mixture))

    def step(i: int) -> float:
        nonlocal mixture, velocity
        value, gradient = loss.value_and_grad(mixture, points, prior)
        mixture, velocity = momentum(mixture, gradient, velocity, rate=0.05)
        return value

    value = compare(loss, mixture, points[:100], prior, scale=len(points) / 100)
    what = f"{len(mixture.alphas)} Gaussians, {'ADBench' if use_file else 'digits'} {points.shape[0]}×{points.shape[1]}"
    return train("gmm", what, steps, step, value)


if __name__ == "__main__":
    cli(run)
