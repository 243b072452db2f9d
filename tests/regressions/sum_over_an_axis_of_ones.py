"""A sum along a short axis took a vector that is broadcast along it, ``p[None]``, for a matrix, and read an element."""

import numpy as np

WEIGHTS = np.array([1.5, 0.75, 0.5])


def main(p):
    return np.sum(WEIGHTS[:, None] * p[None], axis=0) @ np.array([0.75, 0.5, 1.25, 0.3, 0.1])


INPUTS = [(np.array([-1.1937, -1.0197, 1.7647, 0.3, 0.7]),)]
