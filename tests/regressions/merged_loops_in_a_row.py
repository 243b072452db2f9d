"""A loop that goes on from where another left off: the value beside the gradient was wrong, both being merged."""

import numpy as np


def main(x, y):
    for i in range(300):
        y = y + np.sin(x * i)
    for i in range(300):
        y = y - np.cos(x * i)
    return y


INPUTS = [(0.3, 1.5), (-1.2, 0.4)]
