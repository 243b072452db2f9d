"""A loop that continues from the result of another: the value beside the gradient was wrong, as both were merged."""

import numpy as np


def main(x, y):
    for i in range(300):
        y = y + np.sin(x * i)
    for i in range(300):
        y = y - np.cos(x * i)
    return y


INPUTS = [(0.3, 1.5), (-1.2, 0.4)]
