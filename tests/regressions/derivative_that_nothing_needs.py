"""A derivative by what does not matter: the cotangents of stacks that come out of it are nobody's, so that the sweep
back through it found no frame where its own cotangent was to be."""

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
