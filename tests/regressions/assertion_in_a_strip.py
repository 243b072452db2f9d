"""An assertion was lost in a vectorised outer loop: its condition is known before the loop."""

import math

import numpy as np


def main(x, n):
    a = np.arange(n * 1.0)
    for i in range(n):
        z = x
        while z > 0.4:
            z = math.tanh(z) * 0.9 - 0.01
        a[i] = z
        assert x < 1.0, "too far"
    return a.sum()


INPUTS = [(0.7, 3), (1.2, 3), (1.2, 0)]
