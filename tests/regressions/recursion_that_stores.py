"""Tracing failed for a recursive function that changes its argument: it forgot that the function returns it."""

import numpy as np


def halved(k, u):
    if k:
        u[k] *= 0.5
        halved(k - 1, u)


def same(k, u):
    if k <= 0:
        return u
    w = same(k - 1, u)
    w[k % 3] *= 2.0
    return w


def main(x, n, p):
    a = p * x
    halved(n, a)
    b = same(n, a)
    b[0] += x
    return a.sum() + b[1]


INPUTS = [(0.5, 2, np.array([1.0, 2.0, 3.0])), (0.5, 0, np.array([1.0, 2.0, 3.0]))]
