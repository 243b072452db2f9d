"""A choice between True and True was replaced by the condition of the choice."""


def main(x, n):
    i1 = 2
    while i1 and (x > 0.3 or i1 % 3 == i1 % 3):
        i1 -= 1
    return i1 + x * n


INPUTS = [
    (-0.468, 3),
    (1.5, 2),
]
