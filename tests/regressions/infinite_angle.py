"""The sine of infinity is nan in compiled code, where CPython raises ValueError: no finding."""

import math


def main(x, n):
    for _ in range(n):
        x = x * x
    return math.sin(x) + math.cos(x)


INPUTS = [(-3.5, 20), (0.5, 2)]
