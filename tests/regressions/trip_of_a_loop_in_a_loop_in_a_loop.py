"""Outlining a loop for several threads used the trip count of a loop two levels below, which is not known before it."""

import numpy as np


def main(x, n, p):
    a = np.zeros(5)
    for i in range(n):
        for j in range(i % 3):
            for k in range((i % 3 + 3) % 4):
                a[i] += p[k % 3] * x + j
    return a.sum()


INPUTS = [(0.5, 5, np.array([0.1, -0.4, 1.5])), (1.2, 0, np.array([0.1, -0.4, 1.5]))]
