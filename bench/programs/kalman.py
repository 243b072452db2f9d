"""The log-likelihood of a Kalman filter: a linear model of four states that are observed through two."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]


class Model(NamedTuple):
    transition: Floats          # (states, states)
    noise: Floats               # (states, states)
    observation: Floats         # (outputs, states)
    error: Floats               # (outputs, outputs)
    mean: Floats                # (states,), of the first state
    covariance: Floats          # (states, states)


def log_density(deviation: Floats, covariance: Floats) -> float:
    """Of a normal distribution around zero."""
    factor = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(factor, deviation)
    size = np.log(np.diag(factor)).sum()
    return -0.5 * np.sum(scaled * scaled) - size - 0.5 * len(deviation) * np.log(2 * np.pi)


def log_likelihood(model: Model, outputs: Floats) -> float:
    """The logarithm of the probability density of the outputs, (times, outputs)."""
    mean, covariance, total = model.mean, model.covariance, 0.0
    for t in range(len(outputs)):
        mean = model.transition @ mean
        covariance = model.transition @ covariance @ model.transition.T + model.noise
        deviation = outputs[t] - model.observation @ mean
        seen = model.observation @ covariance @ model.observation.T + model.error
        total += log_density(deviation, seen)
        gain = np.linalg.solve(seen, model.observation @ covariance).T
        mean = mean + gain @ deviation
        covariance = covariance - gain @ model.observation @ covariance
    return total


def example(times: int = 100, seed: int = 0) -> tuple[Model, Floats]:
    """A body in the plane: its place is measured, its speed is not."""
    rng, step = np.random.default_rng(seed), 0.1
    transition = np.eye(4) + step * np.eye(4, k=2)
    observation = np.eye(2, 4)
    model = Model(transition, 0.01 * np.eye(4), observation, 0.1 * np.eye(2), np.zeros(4), np.eye(4))
    return model, np.cumsum(rng.normal(size=(times, 2)), axis=0) * step
