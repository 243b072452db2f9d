"""The functions that the tests export; ``python -m jitad build`` imports them from here too."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from jitad import aot

SCALE = np.array([1.0, 0.5, 0.25])


@dataclass
class Layer:
    weights: aot.f64["n", "m"]
    bias: aot.f64["m"]
    power: int


def loss(layer: Layer, x: aot.f64["r", "n"], y: aot.f64["r", "m"]):
    out = np.tanh(x @ layer.weights + layer.bias) - y
    return np.sum(out ** 2) / layer.power + np.sum(SCALE)


def curve(w: aot.f64[2], x: aot.f64["n"], y: aot.f64["n"]):
    total = 0.0
    for i in range(len(x)):
        total += (np.tanh(w[0] * x[i] + w[1]) - y[i]) ** 2
    return total


def pair(x: aot.f32["n"], add: bool, i: aot.i32):
    if add:
        return x + 2.0, i + 1
    return x * 2.0, i


def pick(x: aot.f64["n"], i: int):
    if i == 77:
        raise ValueError(f"i must not be {i}: 100%")
    assert i != 78, "not 78"
    return x[i]


def quotient(i: int, j: int):
    return i // j


def depth(n: int, x: float):
    if n == 0:
        return x
    return 1.0 + depth(n - 1, x * 0.5) * 0.5


def buffers(n: int):
    """Allocates arrays whose size the caller chooses."""
    x = np.ones(n)
    return np.sum(np.cumsum(x) * x[::-1])


def walk(n: int, x: aot.f64["n"]):
    """Arrays that loops carry and recursion returns, so that memory is moved and reused."""
    if n == 0:
        return x * 1.5
    inner = walk(n - 1, x * 0.5)
    for i in range(20):
        inner = np.concatenate((inner, x))[1:len(x) + 1] + i
    return inner


def merged(x: aot.f64["n"]):
    """The cost of merging the two least numbers until one is left: a list that grows and shrinks."""
    heap = []
    for v in x:
        heapq.heappush(heap, v)
    cost = 0.0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        cost += both * both
        heapq.heappush(heap, both)
    return cost
