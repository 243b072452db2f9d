"""A loop that may end with an error: the adjoint of its array had size 0 in the last iteration."""

import numpy as np

from jitad import grad, hessian

TABLE = np.array([0.5, -0.25, 1.5])


def checked(w):
    if w != w:
        return hessian(lambda t: w)(TABLE)[1, 3]
    return 0.25 * TABLE[2]


def main(x, p):
    out = np.zeros(len(p))
    for j in range(len(p)):
        out[j] += p[j] * (grad(checked)(x) + 1.0)
    return out.sum()


INPUTS = [(0.7, np.array([0.5, 1.5, -0.3])), (1.2, np.array([0.5])), (0.2, np.zeros(0))]
