"""The gradient crashed if only the value of a value_and_grad of a recursive function is used."""

import math

from jitad import value_and_grad


def down(k, z):
    if k <= 0:
        return z
    return math.sin(down(k - 1, z * z)) + 0.1


def main(x, n):
    s = x
    for _ in range(2):
        s = value_and_grad(lambda z, s=s: down(n, z * s))(x)[0] + s
    return s


INPUTS = [(0.7, 3), (1.1, 0)]
