"""A branch was converted inside one that stayed, in a loop around another, and its values were not replaced."""

import math

import numpy as np


def main(x, n):
    a = np.arange(n * 1.0)
    total = 0.0
    for i in range(n):
        u = 0.0
        if a[i] < x:
            v = 1.0
            if a[i] > 1.0:
                v = a[i] * 2.0
            else:
                v = a[i] + 3.0
            u = math.exp(v) + math.sin(v) + math.cos(v) + math.tanh(v) + v
        for j in range(n):
            u = u * 0.5 + a[j]
        total += u
    return total


INPUTS = [(2.5, 4), (2.5, 0), (9.5, 5)]
