"""Hessian times vector of a loop that depends on the data, by forward mode over reverse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_ours
from jitad import hvp

TITLE = "Hessian times vector of a data-dependent loop"
SIZE = 1000


def relaxed(x: Any) -> float:
    """Each number is halved until it is small; the sum depends on the numbers of halvings."""
    total = 0.0
    for i in range(len(x)):
        v = x[i]
        while v > 0.01:
            v = v * 0.5 + 0.001 * math.sin(v * x[(i + 1) % len(x)])
            total += v * v * x[i]
    return total


def product(x: Any, v: Any) -> Any:
    return hvp(relaxed, (x,), (v,))


def in_torch(x: Any, v: Any) -> Program:
    """All numbers at once; finished ones do not change."""
    import torch

    x, direction = torch.tensor(x, requires_grad=True), torch.tensor(v)

    def total(x: Any) -> Any:
        v, sum_, right = x, torch.zeros((), dtype=x.dtype), torch.roll(x, -1)
        while bool((going := v > 0.01).any()):
            new = v * 0.5 + 0.001 * torch.sin(v * right)
            v = torch.where(going, new, v)
            sum_ = sum_ + torch.where(going, v * v * x, 0).sum()
        return sum_

    def run() -> Any:
        first = torch.autograd.grad(total(x), x, create_graph=True)[0]
        return torch.autograd.grad(first @ direction, x)[0]
    return run


def cases(bench: Bench) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    x, v = rng.uniform(0.5, 3.0, SIZE), rng.normal(size=SIZE)
    value = bench.case("Hessian product", "value")
    add_ours(value, relaxed, lambda f: lambda: f(x))
    yield value
    case = bench.case("Hessian product", "hessian", rtol=1e-8)
    add_ours(case, product, lambda f: lambda: f(x, v))
    case.cannot["JAX"] = "reverse mode through a while loop is refused"
    case.add("PyTorch", lambda: in_torch(x, v))
    yield case
