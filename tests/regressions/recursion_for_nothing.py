"""Dead code elimination broke a recursive call with an unused result whose base case the caller decides."""

import numpy as np


def folded(k, u):
    if k > 0:
        u[k % 3] += u[(k + 1) % 3] * 0.5
        folded(k - 1, u)
    return u[0]


def main(x, n, p):
    a = p * x
    folded(n, a)
    return a.sum() + a[1] * x


INPUTS = [(1.171, 2, np.array([0.687, -0.617, -0.109])), (0.4, 0, np.array([0.687, -0.617, -0.109]))]
