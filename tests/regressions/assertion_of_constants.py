"""A raising block remained without a predecessor: a loop over integers only, vectorised as an outer loop."""

import numpy as np


def main(x, n):
    for _ in range(n):
        k = 2
        while k > 0 and 2 ** (k % 3) % 3 < 1:
            k -= 1
        assert abs(np.max(np.array([0.5, -0.25, 1.5]))) < 1.0 + x, "too far"
    return x


INPUTS = [(0.4, 2), (0.6, 2), (0.4, 0)]
