"""A loop in which the last bit of the arguments decides: two ways of computing it may differ, not a finding."""

import numpy as np


def main(x, p):
    u = p * x
    for _ in range(len(p)):
        u += np.sin(u[::-1])
    return (u * u).sum()


INPUTS = [(-0.105, 1.2 * np.sin(np.arange(350) * 1.3 + 1.165)), (0.3, np.array([0.5, -0.2]))]
