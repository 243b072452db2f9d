"""The gradient of a store through a mask on one path only was wrong."""

import numpy as np


def main(x, n, p):
    a = p.copy()
    if n:
        a[a > 0.2] = x
    return a.sum() + x * x


INPUTS = [(0.7, 2, np.array([0.3, -0.6, 1.1])), (-0.4, 0, np.array([-1.0, 0.55, 0.15]))]
