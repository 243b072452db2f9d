"""Compilation did not end: a check in a loop establishes that a size equals itself."""

import numpy as np

FLAGS = np.array([True, False, True])


def main(x, n, p):
    a = p.copy()
    k = 1
    while k > 0:
        k -= 1
        for u, v in zip(np.concatenate([np.stack([a, a.copy(), p])[0][1:], np.where(a > -0.3, a, 0.5)[:1]]), p):
            a[FLAGS ^ FLAGS] = u * v
    return x * (a @ np.array([0.75, 0.5, 1.25]))


INPUTS = [(0.4, 1, np.array([-0.2517, -1.3537, 1.4227]))]
