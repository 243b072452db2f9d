"""At the loop level, a row whose sizes are literals behind a `retype` had another type than its rule gives."""

import math

import numpy as np

WEIGHTS = np.array([[0.5, 0.75, 1.0], [0.25, -0.5, 1.25]])


def main(x, q, p):
    m = q * 1.5
    for row in m:
        if x >= row[np.arange(3)].sum():
            x += 0.5
        row -= math.copysign(0.4, -0.0)
    return 0.5 * x + (q * WEIGHTS).sum() + (m * WEIGHTS).sum()


INPUTS = [
    (-0.4867, np.array([[0.5707, -0.9727, -1.2857], [-0.0717, -0.7157, -1.4347]]), np.array([0.4657, 0.8057, -1.1267])),
]
