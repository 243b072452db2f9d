"""Checks of derivatives: reverse mode against forward mode, differences, and other ways of computing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitad import checkpoint, grad, interpret, jit, jvp, vjp, vmap
from tests.fuzzing import plain
from tests.fuzzing.compare import Function, difference, finite, outcome, steady
from tests.fuzzing.comparing import LONGEST, Comparing
from tests.fuzzing.values import flatten, flatten_like, is_float, unflatten

STEEP = 1e6                             # a slope beyond which differences are unreliable (a chaotic loop)


class Derivatives(Comparing):

    def derivatives(self, fun: Function, at: tuple[Any, ...], value: Any, gradient: Any) -> None:
        """Checks a program whose result is a float; ``fun`` is its compiled ``value_and_grad``."""
        direction = self.direction(at)
        slope = self.dot(gradient, direction, at)
        if "gradient alone" in self.checks:
            self.doing = "gradient alone"
            self.same(self.doing, at, self.once("main", Any).grad(*at), gradient)
        if "forward" in self.checks:
            self._forward(at, direction, value, slope)
        self._differences("gradient against differences", lambda *a: fun(*a)[0], at, direction, slope, 1e-4)
        self._otherwise(at, value, gradient)
        if "second" in self.checks and not self.single:
            self._second(at, direction)

    def certain(self, fun: Function, at: tuple[Any, ...], gradient: Any) -> bool:
        """True if a gradient is reliable.

        An intermediate 0 * inf is NaN in one order of evaluation only.  If the last bit of the arguments decides (a
        chaotic loop), so does the order of additions.
        """
        if not np.isfinite(self.dot(gradient, self.direction(at), at)):
            return False
        return steady(lambda *a: fun(*a)[1], at, gradient)

    def _differences(self, check: str, fun: Function, at: tuple[Any, ...], direction: tuple[Any, ...], slope: float,
                     rtol: float) -> None:
        if self.stopped or self.single or abs(slope) >= STEEP:
            return
        numeric, smooth = difference(fun, at, direction)
        if smooth:
            self.same(check, at, slope, numeric, rtol)

    def _tangent(self, at: tuple[Any, ...], direction: tuple[Any, ...], value: Any) -> Any:
        forward = self.once("forward", lambda: jit(lambda args, tangents: jvp(self.main, args, tangents)))
        out, tangent = forward(at, direction)
        self.same("value beside the tangent", at, out, value)
        return tangent

    def _forward(self, at: tuple[Any, ...], direction: tuple[Any, ...], value: Any, slope: float) -> None:
        """Compares with forward mode, the transpose of reverse mode."""
        self.doing = "forward mode"
        tangent = self._tangent(at, direction, value)
        if np.isfinite(tangent):
            self.same("forward mode against reverse", at, tangent, slope, 1e-3 if self.single else 1e-7)

    def _otherwise(self, at: tuple[Any, ...], value: Any, gradient: Any) -> None:
        """Compares with the gradient by definition, and with checkpoints."""
        if "interpreted gradient" in self.checks:
            self.doing = "interpreted gradient"
            self.by_definition(at, lambda: interpret(grad(self.main, self.floats), *at), gradient)
        if "checkpoint" in self.checks:
            self.doing = "checkpoint"
            fun = self.once("checkpoint", lambda: jit(grad(checkpoint(self.main), self.floats)))
            self.same(self.doing, at, fun(*at), gradient, 1e-7)
        for states in (True, 2):
            if f"checkpoint={states}" in self.checks:
                self.doing = f"checkpoint={states}"
                fun = self.once(self.doing, lambda s=states: jit(grad(self.main, self.floats), checkpoint=s))
                self.same(self.doing, at, fun(*at), gradient, 1e-7)

    def several(self, fun: Function, at: tuple[Any, ...], value: Any) -> None:
        """Checks a result with several floats: dot products of tangents and cotangents agree."""
        leaves, structure = flatten(value)
        weights = [np.sin(np.arange(np.size(x)).reshape(np.shape(x)) + k) if is_float(x) else None
                   for k, x in enumerate(leaves)]
        cotangent = unflatten(structure, [w if w is None or np.shape(w) else float(w) for w in weights])
        direction = self.direction(at)

        def weighed(result: Any) -> float:
            parts = flatten_like(structure, result)
            return sum(float(np.sum(x * w)) for x, w in zip(parts, weights) if w is not None)
        self.doing = "pullback"
        pull = self.once("pullback", lambda: jit(lambda args, ct: vjp(self.main, *args)[1](ct)))

        def pulled(*args: Any) -> Any:
            cotangents = pull(args, cotangent)
            return tuple(cotangents[i] for i in self.floats)
        gradient = pulled(*at)
        slope = self.dot(gradient, direction, at)
        if not finite(gradient) or not steady(pulled, at, gradient):
            return
        if "forward" in self.checks:
            self.doing = "forward mode of several results"
            tangent = weighed(self._tangent(at, direction, value))
            if np.isfinite(tangent):
                self.same("pullback against forward mode", at, slope, tangent, 1e-3 if self.single else 1e-7)
        self._differences("pullback against differences", lambda *a: weighed(fun(*a)), at, direction, slope, 1e-4)

    def _second(self, at: tuple[Any, ...], direction: tuple[Any, ...]) -> None:
        """Checks second derivatives: reverse over reverse against forward over reverse."""
        self.doing = "second derivative"

        def along(*args: Any) -> Any:
            *args, tangents = args
            return jvp(grad(self.main, self.floats), tuple(args), tangents)

        def slope(*args: Any) -> Any:
            *args, tangents = args
            return jvp(self.main, tuple(args), tangents)[1]
        along_jit = self.once("along", lambda: jit(along))
        forward = along_jit(*at, direction)[1]
        reverse = self.once("slope", lambda: jit(grad(slope, self.floats)))(*at, direction)
        if not finite(forward) or not finite(reverse) or not steady(
                lambda *a: along_jit(*a, direction)[1], at, forward):
            return
        self.same("second derivative, forward over reverse against reverse over forward", at, forward, reverse, 1e-6)
        self._differences("second derivative against differences",
                          lambda *a: self.dot(along_jit(*a, direction)[0], direction, a), at, direction,
                          self.dot(forward, direction, at), 1e-3)

    def mapped(self, fun: Function, at: tuple[Any, ...]) -> None:
        """Compares ``vmap`` over the first float with a loop."""
        if "vmap" not in self.checks or not isinstance(at[0], float):
            return
        self.doing = "vmap"
        values = np.array([at[0], at[0] * 0.5 + 0.1, -at[0]])
        try:
            with plain.limited(LONGEST):                        # it is unknown whether CPython would end
                each = [outcome(fun, float(x), *at[1:]) for x in values]
        except plain.TooLong:
            return
        if any(isinstance(w, Exception) or not steady(fun, (float(x), *at[1:]), w) for x, w in zip(values, each)):
            return
        axes = (0, *[None] * (len(at) - 1))
        mapped = self.once("vmap", lambda: jit(vmap(self.main, in_axes=axes)))
        self.same("vmap against a loop", at, mapped(values, *at[1:]), np.array([value for value, _ in each]))
        slopes = np.array([gradient[0] for _, gradient in each])
        if np.all(np.isfinite(slopes)):
            mapped = self.once("vmap grad", lambda: jit(vmap(grad(self.main), in_axes=axes)))
            self.same("vmap of the gradient against a loop", at, mapped(values, *at[1:]), slopes, 1e-7)
