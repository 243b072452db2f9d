"""A captured array that one side of an `and` reads first was undefined after it."""

import numpy as np

TABLE = np.array([0.5, 0.25, 1.5])


def main(x, n):
    while n > 0 and TABLE.sum() > x:
        n -= 1
    if x > 1.0 or TABLE[0] < x:
        x *= 0.5
    return TABLE.sum() * x + n


INPUTS = [(1.4, 3), (0.2, 0), (0.7, 2), (2.5, 1)]
