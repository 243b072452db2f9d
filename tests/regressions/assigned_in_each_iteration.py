"""A variable is assigned in each iteration, but read in the first only: its adjoint was that of the last one."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Box:
    w: float
    h: float


def area(shape):
    match shape:
        case Box(w=w, h=h) if w > 1.25:
            return w * h


def main(x, q):
    m = q * 1.5
    for _ in range(2):
        for i in range(2):
            m[0, i] += area(Box(q[i, 2], x))
            x = -0.5
    return x + m.sum()


INPUTS = [(1.5, np.array([[1.15, -1.481, 1.52], [0.835, 1.568, 1.579]]))]
