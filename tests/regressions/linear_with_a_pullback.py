"""Forward mode of a function that captures a pullback: it read tangents from the frames of a stack without any."""

import math

import numpy as np

from jitad import jvp, linearize, vjp


def main(x, n, p):
    back = vjp(math.tanh, 0.5)[1]
    also = vjp(lambda z: np.sin(p * z).sum(), x)[1]
    linear = linearize(lambda z: back(z)[0] + also(z)[0], 0.3)[1]
    return p.sum() + linear(0.3) + jvp(lambda z: back(z * z)[0], (x,), (1.0,))[1]


INPUTS = [(-0.8707, 1, np.array([0.172, 1.19, 0.465]))]
