"""Loop fission failed for a loop that carries a stack: the second derivative of an iteration over allocated nodes."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Chain:
    value: float
    rest: "Chain | None" = None


def main(x, n):
    total = np.exp(x)
    chain = Chain(0.5, None)
    while chain is not None:
        total += chain.value * x
        chain = chain.rest
    return total


INPUTS = [(0.415, 0), (-1.2, 3)]
