"""The loss of a fit, which ``minimise.c`` minimises: ``python -m jitad build fit:loss``."""

import numpy as np

from jitad import aot


def loss(w: aot.f64[2], x: aot.f64["n"], y: aot.f64["n"]):
    err = 0.0
    for i in range(len(x)):
        err += (np.tanh(w[0] * x[i] + w[1]) - y[i]) ** 2
    return err
