"""``linearize`` of a function that captures a tree: the saved tree was copied into something that is not a tree."""

from dataclasses import dataclass

from jitad import linearize


@dataclass
class Chain:
    head: float
    tail: "Chain | None"


def total(chain):
    s = 0.0
    while chain is not None:
        s = s * 0.9 + chain.head
        chain = chain.tail
    return s


def main(x, n, q):
    value, linear = linearize(lambda z: x + z * total(q), 0.5)
    chosen = linear if value > 0 else linear
    return chosen(1.0) + value


INPUTS = [(1.425, 3, Chain(0.21, Chain(1.72, Chain(0.9, None))))]
