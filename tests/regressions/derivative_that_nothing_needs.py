"""A derivative without effect: the cotangents of its stacks are unused, so that its reverse sweep found no frame for
its own cotangent.
"""

import numpy as np

from jitad import grad


def main(x, n, p):
    def arrays(z, u, k=2):
        if k <= 0:
            return (u * z).sum()
        return arrays(z, np.sin(u), k - 1) * z
    grad(lambda _: grad(arrays)(x, p))(p)
    return p * x


INPUTS = [(0.7, 2, np.array([0.386, -1.022, -1.426]))]
