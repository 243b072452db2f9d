"""The gradient reran the first loop after the second, which does not end, though the program raises in the first."""

import math

import numpy as np


def main(x, p):
    s = 0.0
    for i in range(len(p)):
        if p[i] > 0.3:
            s += math.sin(p[i] * x) * p[i + 1]
    while x > -1.0:
        x = math.tanh(x) * 0.9 - 0.01
    return s + x


INPUTS = [(1.7767, np.array([-0.87, 0.56, 1.15])), (-1.5, np.array([0.5, 1.2, 0.1])), (-1.5, np.array([0.5, 1.2]))]
