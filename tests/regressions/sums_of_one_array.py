"""On several threads: two sums into arrays that start from one array of zeros were both stored in it."""

import numpy as np

from jitad import jacrev, vmap


def main(x, n, p):
    a = p.copy()
    x += jacrev(lambda z: vmap(lambda _: z[1:] @ z[:-1])(np.array([0.5, 0.25, 1.5])))(a)[n, 1]
    return x


INPUTS = [(-1.219, 0, np.array([-1.316, -0.64, -0.687]))]
