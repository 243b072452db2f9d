"""Small programs, each of which needs another kind of kernel: values and gradients."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from jitad import grad, value_and_grad, vmap

RNG = np.random.default_rng(7)


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return np.sin(x)


def shared_inputs(w: Any, a: Any) -> Any:
    return vmap(lambda x: newton(x) * w[0] + w[1])(a).sum()


def shared_array(w: Any, a: Any) -> Any:
    def one(x: Any) -> Any:
        total = 0.0
        for k in range(len(w)):
            total = np.tanh(total + w[k] * x)
        return total
    return vmap(one)(a).sum()


def steps(p: Any, x0: Any) -> Any:
    def one(x: Any) -> Any:
        n = 0
        while n < 50 and x < 5.0:
            x = x + 0.1 * np.sin(p[0] * x) + p[1]
            n += 1
        return x
    return vmap(one)(x0).sum()


def deep(n: int, x: Any) -> Any:
    return x if n <= 0 else deep(n - 1, np.sin(x)) * 1.1


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer(w: Any, x: Any) -> Any:
    return (np.tanh(x @ w) ** 2).sum()


def reductions(x: Any) -> Any:
    return x.sum(), x.max(), x.mean(axis=0), x.min(axis=1), x.prod(axis=1), x.argmax(axis=1), (x > 0).any(), x[0].all()


def histogram(i: Any, n: int) -> Any:
    counts = np.zeros(n)
    for k in range(len(i)):
        counts[i[k]] += 1.5
    return counts


def fit(x: Any, y: Any) -> Any:
    w = np.zeros(2)
    for _ in range(5):
        w = w - 0.1 * grad(lambda w: ((w[0] * x + w[1] - y) ** 2).mean())(w)
    return w


def types(a: Any, b: Any, c: Any) -> Any:
    return a + 1, a // 3, b * b, (b > 1) & (c > 2), c << 2, c.sum(), a.max(), (b / 3).sum()


def merged(a: Any) -> Any:
    """The cost of merging the two least numbers until one is left."""
    heap = []
    for v in a:
        heapq.heappush(heap, v)
    cost = 0.0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        cost += both * both
        heapq.heappush(heap, both)
    return cost


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "shared inputs": (lambda w, a: value_and_grad(shared_inputs)(w, a), (np.ones(2), np.linspace(1, 2, 1000))),
    "shared array": (lambda w, a: value_and_grad(shared_array)(w, a), (RNG.normal(size=40), RNG.normal(size=300))),
    "while": (lambda p, x: value_and_grad(steps)(p, x), (np.array([1.3, 0.1]), np.linspace(-1, 1, 500))),
    "per-example": (lambda p, x: vmap(grad(lambda q: steps(p, np.array([q]))))(x),
                    (np.array([1.3, 0.1]), np.linspace(-1, 1, 50))),
    "recursion": (lambda x: (vmap(lambda v: deep(5, v))(x), vmap(grad(lambda v: deep(5, v)))(x)),
                  (RNG.normal(size=100),)),
    "a heap for each row": (lambda x: vmap(value_and_grad(merged))(x), (RNG.random(size=(70, 9)),)),
    "elementwise": (lambda a, b: np.tanh(a * b + 2.0) * a, (RNG.normal(size=(30, 40)), RNG.normal(size=40))),
    "softmax": (softmax, (RNG.normal(size=(7, 50)),)),
    "reductions": (reductions, (RNG.normal(size=(7, 500)),)),
    "layer": (lambda w, x: value_and_grad(layer)(w, x), (RNG.normal(size=(30, 40)), RNG.normal(size=(20, 30)))),
    "scan and sort": (lambda x: (np.cumsum(x), np.sort(x)), (RNG.normal(size=100),)),
    "gather": (lambda x, i: x[i], (RNG.normal(size=100), RNG.integers(0, 100, 300))),
    "scatter": (lambda x, i: grad(lambda x: (x[i] ** 2).sum())(x), (RNG.normal(size=100), RNG.integers(0, 100, 300))),
    "histogram": (histogram, (RNG.integers(0, 20, 500), 20)),
    "out of bounds": (lambda x, i: x[i], (RNG.normal(size=100), RNG.integers(0, 100, 300) + 1)),
    "training": (fit, (RNG.normal(size=100), RNG.normal(size=100))),
    "types": (types, (np.arange(-40, 40, dtype=np.int32), np.linspace(0, 3, 80, dtype=np.float32),
                      np.arange(80, dtype=np.uint8))),
    "nothing": (lambda x: (x.sum(), x * 2, np.sort(x)), (np.zeros(0),)),
    "scalars": (lambda x, n: value_and_grad(lambda x: deep(3, x) * n)(x), (0.3, 4)),
}
