"""Shared state of all checks of one program: compiled functions, counts, and the comparison that raises ``Wrong``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from jitad.lowering.llvm import context

from tests.fuzzing import plain
from tests.fuzzing.compare import Function, agree
from tests.fuzzing.values import flatten, flatten_like, is_float, unflatten

DERIVATIVES = ("grad", "jvp", "vjp", "hvp", "hessian", "jacrev", "jacfwd", "linearize")
# Programs that depend on the last bit, or on the sign of a zero: `fastmath` preserves neither.
SHARP = ("copysign(", "np.divide(", "== 0.0", "sign(", "heaviside(", "atan2(", "arctan2(", "float32", "SINGLE")
LONGEST = 2.0                           # seconds for the reference interpreter, and for calls that may not end


class Wrong(Exception):
    """Raised if two results differ."""

    def __init__(self, check: str, detail: str) -> None:
        super().__init__(check, detail)
        self.check, self.detail = check, detail


class Soiled:
    """A jitted function whose arena is filled with numbers, so that reads of uninitialised memory are noticed."""

    def __init__(self, fun: Any) -> None:
        self._fun, self._dirt = fun, itertools.cycle((7.7, -3.3))

    def __call__(self, *args: Any) -> Any:
        context.soil(next(self._dirt))
        return self._fun(*args)

    @property
    def grad(self) -> Soiled:
        return Soiled(self._fun.grad)

    @property
    def value_and_grad(self) -> Soiled:
        return Soiled(self._fun.value_and_grad)


class Comparing:
    """State of the comparisons of a checker.

    ``doing``: the current check.  ``counts``: the number of comparisons of each kind.  ``compared``: the two sides of
    the last comparison of each kind.
    """

    def __init__(self, space: dict[str, Any], checks: frozenset[str], source: str) -> None:
        self.space, self.checks, self.source = space, checks, source
        self.main: Function = space["main"]
        self.inputs: list[tuple[Any, ...]] = list(space["INPUTS"])
        self.counts: dict[str, int] = {}
        self.compared: dict[str, tuple[Any, Any]] = {}
        self.doing = "value"
        body = source.split("def ", 1)[-1]
        self.stopped = "stop_gradient(" in body
        self.derives = any(f"{name}(" in body for name in DERIVATIVES)
        self.sharp = any(text in body for text in SHARP)
        self.single = "float32" in body or "SINGLE" in body
        self.tolerance = 1e-4 if self.single else 1e-8
        self.floats: tuple[int, ...] = ()                     # the arguments that hold floats
        self._known: dict[Any, Any] = {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """A compiled function, made when it is first used."""
        if (name, self.floats) not in self._known:
            made = make()
            self._known[name, self.floats] = Soiled(made) if getattr(type(made), "is_jitad", False) else made
        return self._known[name, self.floats]

    def same(self, check: str, at: tuple[Any, ...], got: Any, want: Any, rtol: float | None = None) -> None:
        self.counts[check] = self.counts.get(check, 0) + 1
        self.compared[check] = got, want
        if not agree(got, want, self.tolerance if rtol is None else rtol):
            raise Wrong(check, f"{got!r} is not {want!r} at {at!r}")

    def by_definition(self, at: tuple[Any, ...], run: Callable[[], Any], got: Any) -> None:
        """Compares with the reference interpreter, which is slow, and slower with each order of derivatives."""
        try:
            with plain.limited(LONGEST):
                meant = run()
        except plain.TooLong:
            return
        self.same(self.doing, at, meant, got, 1e-4 if self.single else 1e-7)

    def direction(self, at: tuple[Any, ...]) -> tuple[Any, ...]:
        """A direction for all floats among the arguments."""
        leaves, structure = flatten(at)
        return unflatten(structure, [
            np.cos(np.arange(x.size).reshape(x.shape) * 2.1 + i) if isinstance(x, np.ndarray) and is_float(x)
            else 0.6 + 0.3 * i % 1.0 if is_float(x) else None for i, x in enumerate(leaves)])

    def dot(self, gradient: Any, direction: tuple[Any, ...], at: tuple[Any, ...]) -> float:
        """The dot product of a gradient by the float arguments and a direction of all arguments."""
        total = 0.0
        for g, i in zip(gradient, self.floats):
            structure = flatten(at[i])[1]
            left, right = flatten_like(structure, g), flatten_like(structure, direction[i])
            total += sum(float(np.sum(np.asarray(x) * y)) for x, y in zip(left, right, strict=True) if y is not None)
        return total
