"""Functions that raise in various ways (here, since pytest rewrites ``assert`` in test modules)."""

from __future__ import annotations


class Plain(Exception):
    pass


class Told(ValueError):
    """An exception whose ``__init__`` takes other arguments than it passes on."""

    def __init__(self, value: float, limit: int, *, unit: str = "m") -> None:
        super().__init__(f"{value} exceeds {limit}")
        self.value, self.limit = value, limit


def bare(x):
    if x > 1:
        raise Plain
    return x


def with_a_value(x):
    if x > 1:
        raise Plain(x)
    return x


def with_its_own_init(x):
    if x > 1:
        raise Told(x * 2, limit=3)
    return x


def mixed(x):
    if x > 1:
        raise LookupError("at", x, ("of", x, [1, x]), f"{{{x:.2f}}} {x!r}", None)
    return x


def named(x):
    limit = 1.0
    assert x < limit, ("x is", x, limit)
    return x


def told(x):
    assert x < 1, f"{x:.3f} is {'too'} large"
    return x


def four(x):
    if x > 1:
        raise Plain(x, x + 1, x + 2, x + 3, x)
    return x


def deep(x, n=5):
    if x < 0:
        return x
    if n == 0:
        raise KeyError(x)
    return deep(x + 1, n - 1)


def from_nothing(x):
    if x > 1:
        raise ValueError("no cause") from None
    return x


def made_before(x):
    error = Plain("before", x)
    if x > 1:
        raise error
    return x


FUNCTIONS = [bare, with_a_value, with_its_own_init, mixed, named, told, four, deep, from_nothing, made_before]
