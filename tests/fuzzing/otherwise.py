"""Checks that compile a program in another way: as a method, with constants for arguments, with ``fastmath``."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitad import jit, value_and_grad
from tests.fuzzing import plain
from tests.fuzzing.compare import Function, agree, as_floats, finite, meaningless, outcome, shaken
from tests.fuzzing.constructs.literals import shaken_constants
from tests.fuzzing.slopes import Derivatives

SHAKE = 1e-10


class Owner:
    """An object whose method is the program."""

    def __init__(self, main: Function) -> None:
        self.main, self.scale = main, 1.0

    def run(self, *args: Any) -> Any:
        return self.main(*args) * self.scale


class Otherwise(Derivatives):

    def as_method(self, at: tuple[Any, ...], value: Any, gradient: Any) -> None:
        """Compares with a transform of a method, which reads the current attributes of the object."""
        if "method" not in self.checks:
            return
        self.doing = "method"
        owner = self.once("owner", lambda: Owner(self.main))
        for scale in (1.0, -2.0, 1.0):
            owner.scale = scale
            found = value_and_grad(owner.run, self.floats)(*copy.deepcopy(at))
            self.same("method's value", at, found[0], value * scale)
            self.same("method's gradient", at, self.dot(found[1], self.direction(at), at),
                      self.dot(gradient, self.direction(at), at) * scale, 1e-7)

    def with_constants(self, at: tuple[Any, ...]) -> None:
        """Compares with integers as static arguments; 1, True and 1.0 are different ones."""
        places = [i for i, x in enumerate(at) if type(x) is int]
        if "static" not in self.checks or not places:
            return
        self.doing = "static"
        names = self.main.__code__.co_varnames
        fun = self.once("static", lambda: jit(self.main, static=tuple(names[i] for i in places)))
        for change in (int, float, bool, int):
            twin = tuple(change(x) if i in places and (change is not bool or x in (0, 1)) else x
                         for i, x in enumerate(at))
            with plain.instead(self.space):
                try:
                    want = outcome(self.main, *copy.deepcopy(twin))
                    calm = agree(outcome(self.main, *shaken(copy.deepcopy(twin), 1e-13)), want, self.tolerance)
                except (plain.Unsure, plain.TooLong):
                    continue
            if calm and not meaningless(want) and not self.derives:
                found = outcome(fun, *copy.deepcopy(twin))
                if not meaningless(found):                      # on a path that CPython does not take
                    if change is float:                         # a variable that is a bool or an int by path is a float
                        found, want = as_floats(found), as_floats(want)
                    self.same(self.doing, twin, found, want)

    def fast(self, at: tuple[Any, ...], fun: Function, value: Any, gradient: Any, compiled: Function) -> None:
        """Compares with ``fastmath`` if all intermediate values are finite and last bits do not decide."""
        if self.sharp or self.derives or not finite(value) or not finite(gradient) or not self._calm(at, value):
            return
        for by in (SHAKE, -SHAKE):
            if not agree(outcome(fun, *shaken(at, by)), (value, gradient), 1e-7):
                return
        self.same("fastmath", at, compiled(*copy.deepcopy(at)), (value, gradient), 1e-6)

    def _calm(self, at: tuple[Any, ...], value: Any) -> bool:
        """True if CPython computes no infinity, and the last digits of constants and arguments do not matter.

        NumPy's results must not be subnormal either, which ``fastmath`` takes for zero.
        """
        with np.errstate(all="raise"):
            for by, main in zip((0.0, SHAKE, -SHAKE), self.once("moved", lambda: list(self._moved()))):
                try:
                    with plain.limited(plain.LONGEST):
                        near = outcome(main, *shaken(copy.deepcopy(at), by))
                except plain.TooLong:
                    return False
                if not agree(near, value, 1e-8):
                    return False
        return True

    def _moved(self) -> Iterator[Function]:
        """The program, and twice with other last digits of its constants: larger ones, and smaller ones."""
        for by in (0.0, SHAKE, -SHAKE):
            space: dict[str, Any] = {"__name__": "random_program"}
            exec(compile(shaken_constants(self.source, by), "<moved>", "exec"), space)
            plain.replace(space)
            yield space["main"]
