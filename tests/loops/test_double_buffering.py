"""Arrays that a loop replaces, in the memory of the ones before the last."""

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit


def advected(u: Any, wind: Any, steps: int) -> Any:
    n = len(u)
    now = u
    for _ in range(steps):
        new = now.copy()
        for i in range(1, n - 1):
            if wind[i] > 0.0:
                new[i] = now[i] - 0.5 * wind[i] * (now[i] - now[i - 1])
            else:
                new[i] = now[i] - 0.5 * wind[i] * (now[i + 1] - now[i])
        now = new
    return now


def waves(u: Any, speed: Any, steps: int) -> Any:
    old, now = u, u
    for _ in range(steps):
        new = np.zeros(len(u))
        for i in range(1, len(u) - 1):
            new[i] = 2.0 * now[i] - old[i] + speed[i] * (now[i - 1] + now[i + 1] - 2.0 * now[i])
        old = now
        now = new
    return old + 3.0 * now


def until_small(u: Any, speed: Any, steps: int) -> Any:
    now, count = u, 0
    while count < steps and (len(now) == 0 or now[0] > 0.1):
        new = np.zeros(len(now))
        for i in range(len(now)):
            new[i] = now[len(now) - 1 - i] * speed[i]
        now = new
        count += 1
    return now


def total(f: Any, u: Any, speed: Any, steps: int) -> Any:
    return np.sum(f(u, speed, steps) ** 2)


@pytest.mark.parametrize("f", [advected, waves, until_small])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
def test_as_in_the_interpreter(f: Any, n: int, steps: int) -> None:
    rng = np.random.default_rng(n)
    u, speed = rng.uniform(0.5, 1.0, n), rng.uniform(-0.9, 0.9, n)
    before = u.copy()
    np.testing.assert_allclose(_compiled[f](u, speed, steps), interpret(f, u, speed, steps), rtol=1e-12)
    assert np.array_equal(u, before)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", [advected, waves, until_small])
def test_gradients(f: Any) -> None:
    rng = np.random.default_rng(1)
    u, speed = rng.uniform(0.5, 1.0, 20), rng.uniform(0.2, 0.9, 20)
    for steps in (1, 2, 5):
        check_grads(lambda u, speed, steps=steps: total(f, u, speed, steps), (u, speed), order=2)


_compiled = {f: jit(f) for f in (advected, waves, until_small)}
