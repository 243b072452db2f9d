"""A transposed copy of the first row of a matrix stepped over the rows as if they were as short as the part."""

import numpy as np


def main(x, q, p):
    m = q * 2.0
    m.T[1] += 0.3 * x
    n = q * 3.0
    n.T[2] += p[0]
    return (m[:1] * q[:, -1:]).sum() + (n[:1] * q).sum() + (n.T[:2].copy() @ m).sum()


INPUTS = [
    (-0.1807, np.array([[0.0837, 0.2727, -1.4457], [0.4307, 1.0047, 0.5777]]), np.array([1.5077, 0.9837, 1.0247])),
    (1.25, np.array([[0.5, -1.5, 0.25, 2.5, 0.75], [1.5, 0.5, -0.25, 0.5, 1.75], [-0.5, 1.25, 0.25, 1.5, -0.75]]),
     np.array([0.5, -1.5])),
]
