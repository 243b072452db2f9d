"""The derivative by definition failed for a variant that is absent on a path."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jitad import custom_vjp, grad, jvp, vjp


@dataclass
class Held:
    x: Any


def squares(h):
    return np.sum(h.x * h.x)


ruled = custom_vjp(squares)
ruled.defvjp(lambda h: (squares(h), h), lambda h, ct: (Held(2.0 * ct * h.x),))


def main(x, p):
    held = Held(np.stack([p, p * x]).reshape(6)[1:4])
    if x > 0.3:
        held.x = x * p[0]
    y, back = vjp(lambda h: h, held)
    z, tangent = jvp(lambda h: Held(np.sin(h.x)), (held,), (held,))
    return np.sum(back(y)[0].x) + squares(tangent) + squares(z) + squares(grad(ruled)(held))


INPUTS = [(0.7, np.array([0.3, -0.6, 1.1])), (-0.4, np.array([-1.0, 0.55, 0.15]))]
