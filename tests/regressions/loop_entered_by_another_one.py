"""The gradient failed while it was written: a loop that a merged loop enters has no counter from 0 any more."""

import math

import numpy as np

from jitad import hvp, jacfwd


def shaped(a, p, i4):
    z5 = [(p)[i4 % 3], 0.0]
    z6 = (np.zeros((2, 3)).T @ np.zeros((2, 3))[:, 0]) * 1.0

    def z7(z8):
        z5[1] = z8 * z8
        z6[2] = z8 * z5[0]
        return math.sin(z8) * z5[0] * z6[(1 + 2) % 3]
    f18 = hvp(z7, (np.copysign((a[1:] @ a[:-1]), -0.3) + 0.0137,), ((0.4 / (1.5 + abs(-0.3))),))
    return jacfwd(z7)(np.sinc(f18 * 1e-3) + 0.0137) + z5[0] * 0.5 + z5[1] + z6 @ np.array([0.5, 0.75, 1.25])


def main(x, n, p):
    a = p.copy()
    for i4 in ((np.array([1, -1, 0]) ^ np.array([1, -1, 0])) % 3):
        if shaped(a, p, i4) < -0.3:
            continue
    return 0.5 * x + 0.75 * n * 0.25 + p @ np.array([0.75, 0.5, 1.25]) + 1.25 * (a @ np.array([0.75, 0.5, 1.25]))


INPUTS = [
    (0.8267, 2, np.array([1.2507, 1.7907, 1.2107])),
    (1.0157, 3, np.array([-1.1347, 1.6867, 0.7107])),
]
