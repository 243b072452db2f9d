"""The verdict on a program: everything that two ways of computing the same thing must agree on.

A program is the source of a module with ``main`` and ``INPUTS``.  Its value in CPython, interpreted and compiled;
reverse mode against forward mode, of which it is the transpose, and against central differences where the program is
smooth; the gradient of the gradient; and so on: ``CHECKS``.
"""

from __future__ import annotations

import copy
import linecache
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

import jitad
from jitad import grad, interpret, jit, jvp, pipeline, vjp
from jitad.frontend.values import tracing

from . import plain
from .compare import (
    REFUSALS,
    Function,
    agree,
    array_references,
    difference,
    finite,
    is_number,
    meaningless,
    outcome,
    shaken,
)
from .values import flatten, flatten_like, is_float, unflatten

# What is checked of some programs only, and of which part of them.
CHECKS = {"forward": 0.5, "interpreter": 0.3, "alone": 0.15, "interpreted gradient": 0.1, "second": 0.08, "vmap": 0.05,
          "checkpoint": 0.08, "unoptimised": 0.1, "unchecked": 0.08, "default level": 0.1, "verify": 0.15}
ALL = frozenset(CHECKS)
# The passes without which there is no code: everything else only makes it better.
NEEDED = ("inline", "cps", "differentiate", "uniqueness", "dce")
DERIVATIVES = ("grad", "jvp", "vjp", "hvp", "hessian", "jacrev", "jacfwd", "linearize")
STEEP = 1e6                             # of a slope beyond this (a chaotic loop) differences say nothing
LONGEST = 5.0                           # seconds of the reference interpreter
# A tangent that is a tree has to be made apart from the tree that it belongs to.
REFUSED_WHILE_RUNNING = "a tangent is a tree of another shape than its value"


@dataclass
class Verdict:
    """``what``: "ok", "idle" (nothing could be compared), "refused", "invalid" (no Python program) or "wrong"."""

    what: str
    check: str = ""                     # which went wrong
    detail: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return ": ".join(x for x in (self.what, self.check, self.detail) if x)


class Wrong(Exception):
    """What does not agree."""

    def __init__(self, check: str, detail: str) -> None:
        super().__init__(check, detail)
        self.check, self.detail = check, detail


def sample(seed: int) -> frozenset[str]:
    """The checks that a program of this seed gets."""
    r = random.Random(~seed)
    return frozenset(name for name, part in CHECKS.items() if r.random() < part)


def load(source: str, name: str = "<random program>") -> dict[str, Any]:
    """The module of a source text."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "random_program"}
    sys.modules.setdefault("random_program", type(sys)("random_program"))        # dataclasses ask for it
    exec(compile(source, name, "exec"), space)
    return space


def verdict(source: str, checks: Iterable[str] = ALL) -> Verdict:
    """What is to be said of a program."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            space = load(source)
            checker = Checker(space, frozenset(checks), source)
        except Exception as e:
            return Verdict("invalid", detail=repr(e))
        try:
            with environment(JITAD_OPT="1" if "default level" in checks else "0",
                             JITAD_DEBUG="1" if "verify" in checks else "0"):
                checker.check()
            found = Verdict("ok" if checker.counts.get("value") else "idle", counts=checker.counts)
        except REFUSALS as e:
            found = Verdict("refused", checker.doing, e.message, checker.counts)
        except Wrong as e:
            found = Verdict("wrong", e.check, e.detail, checker.counts)
        except Exception as e:
            if REFUSED_WHILE_RUNNING in str(e):
                return Verdict("refused", checker.doing, str(e), checker.counts)
            found = Verdict("wrong", f"{checker.doing}, {type(e).__name__}", str(e)[:300], checker.counts)
        if tracing():
            return Verdict("wrong", "leftovers", "a trace is still active")
        return found


@contextmanager
def environment(**values: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, values):
        yield


class Checker:
    """Checks one program; ``doing`` is what it is at, ``counts`` how many comparisons of each kind were made."""

    def __init__(self, space: dict[str, Any], checks: frozenset[str], source: str) -> None:
        self.space, self.checks = space, checks
        self.main: Function = space["main"]
        self.inputs: list[tuple[Any, ...]] = list(space["INPUTS"])
        self.counts: dict[str, int] = {}
        self.doing = "value"
        body = source.split("def ", 1)[-1]
        self.stopped = "stop_gradient(" in body
        self.derives = any(f"{name}(" in body for name in DERIVATIVES)
        self.single = "float32" in body
        self.tolerance = 1e-4 if self.single else 1e-8
        self.floats: tuple[int, ...] = ()                     # the arguments that hold floats
        self._known: dict[Any, Any] = {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """A compiled function, made when it is first needed."""
        if (name, self.floats) not in self._known:
            self._known[name, self.floats] = make()
        return self._known[name, self.floats]

    def check(self) -> None:
        for at in self.inputs:
            self.floats = tuple(i for i, x in enumerate(at) if any(map(is_float, flatten(x)[0])))
            fun = self.once("main", lambda: jit(self.main, grad=self.floats or False))
            want = self._python(at)
            if want is not TooLong and not meaningless(want):
                self._value(fun, at, want)

    # --- the value ----------------------------------------------------------------------------------

    def _value(self, fun: Any, at: tuple[Any, ...], want: Any) -> None:
        self.doing = "value"
        given, before = copy.deepcopy(at), copy.deepcopy(at)
        references = array_references(given)
        got = outcome(fun, *given)
        if isinstance(got, REFUSALS):
            raise got
        if not agree(given, before, 0.0):
            raise Wrong("arguments", f"changed to {given!r} from {before!r}")
        if references != array_references(given) and not isinstance(got, Exception):
            raise Wrong("references", "a call keeps references to its arguments")
        if want is not Unsettled and not agree(got, want, 1e-5 if self.derives else self.tolerance):
            raise Wrong("value", f"compiled {got!r}, CPython {want!r} at {at!r}")
        if "interpreter" in self.checks:
            self.doing = "interpreter"
            self._by_definition(at, lambda: outcome(interpret, self.main, *copy.deepcopy(at)), got)
        self._variants(at, got)
        if isinstance(got, Exception):
            return
        if not finite(got):
            return
        self._count("value")
        if self.floats and is_number(got):
            self._derivatives(fun, at, got)
            self._mapped(at)
        elif self.floats and any(map(is_float, flatten(got)[0])):
            self._several(fun, at, got)

    def _python(self, at: tuple[Any, ...]) -> Any:
        """What CPython has, if its last bit does not matter."""
        with plain.instead(self.space):
            try:
                want = outcome(self.main, *copy.deepcopy(at))
                for by in (1e-13, -1e-13):
                    near = outcome(self.main, *shaken(at, by))
                    if not agree(near, want, 1e-6 if self.derives else self.tolerance):
                        return Unsettled                      # chaos: the last bit decides
            except plain.Unsure:
                return Unsettled
            except plain.TooLong:
                return TooLong
        return Unsettled if self.stopped and self.derives else want     # differences do not stop

    def _variants(self, at: tuple[Any, ...], got: Any) -> None:
        """Compiled in other ways, it gives the same."""
        if "unchecked" in self.checks and not isinstance(got, Exception):
            self.doing = "boundscheck=False"
            fun = self.once("unchecked", lambda: jit(self.main, boundscheck=False))
            self._same(self.doing, at, outcome(fun, *copy.deepcopy(at)), got)
        if "unoptimised" in self.checks:
            self.doing = "unoptimised"
            fun = self.once("unoptimised", lambda: Unoptimised(jit(self.main)))
            self._same(self.doing, at, outcome(fun, *copy.deepcopy(at)), got)

    # --- derivatives --------------------------------------------------------------------------------

    def _derivatives(self, fun: Any, at: tuple[Any, ...], value: Any) -> None:
        self.doing = "gradient"
        again, gradient = fun.value_and_grad(*at)
        self._same("value beside the gradient", at, again, value)
        if "alone" in self.checks:
            self.doing = "gradient alone"
            self._same(self.doing, at, fun.grad(*at), gradient)
        direction = self._direction(at)
        slope = self._dot(gradient, direction, at)
        if not np.isfinite(slope):
            return                                            # 0 * inf on the way is NaN one way, not the other
        self._count("gradient")
        if "forward" in self.checks:
            self._forward(at, direction, value, slope)
        if not self.stopped and not self.single:
            numeric, smooth = difference(lambda *a: fun(*a), at, direction)
            if smooth and abs(slope) < STEEP:
                self._same("gradient against differences", at, slope, numeric, 1e-4)
                self._count("differences")
        self._other_gradients(at, gradient)
        if "second" in self.checks and not self.single:
            self._second(at, direction)

    def _forward(self, at: tuple[Any, ...], direction: tuple[Any, ...], value: Any, slope: float) -> None:
        """Of which reverse mode is the transpose."""
        self.doing = "forward mode"
        forward = self.once("forward", lambda: jit(lambda args, tangents: jvp(self.main, args, tangents)))
        out, tangent = forward(at, direction)
        self._same("value beside the tangent", at, out, value)
        if np.isfinite(tangent):
            self._same("forward mode against reverse", at, tangent, slope, 1e-3 if self.single else 1e-7)
            self._count("forward")

    def _other_gradients(self, at: tuple[Any, ...], gradient: Any) -> None:
        if "interpreted gradient" in self.checks:
            self.doing = "interpreted gradient"
            self._by_definition(at, lambda: interpret(grad(self.main, self.floats), *at), gradient)
        if "unoptimised" in self.checks:
            self.doing = "unoptimised gradient"
            fun = self.once("unoptimised gradient", lambda: Unoptimised(jit(grad(self.main, self.floats))))
            self._same(self.doing, at, fun(*at), gradient, 1e-7)
        if "checkpoint" in self.checks and hasattr(jitad, "checkpoint"):
            self.doing = "checkpointed gradient"
            fun = self.once("checkpoint", lambda: jit(grad(jitad.checkpoint(self.main), self.floats)))
            self._same(self.doing, at, fun(*at), gradient, 1e-7)
            for states in (True, 2):
                self.doing = f"gradient with checkpoint={states}"
                fun = self.once(self.doing, lambda s=states: jit(grad(self.main, self.floats), checkpoint=s))
                self._same(self.doing, at, fun(*at), gradient, 1e-7)

    def _several(self, fun: Any, at: tuple[Any, ...], value: Any) -> None:
        """A result with several floats: its tangent and its cotangent have the same product with one another's."""
        leaves, structure = flatten(value)
        weights = [np.sin(np.arange(np.size(x)).reshape(np.shape(x)) + k) if is_float(x) else None
                   for k, x in enumerate(leaves)]
        cotangent = unflatten(structure, [w if w is None or np.shape(w) else float(w) for w in weights])
        direction = self._direction(at)

        def weighed(*args: Any) -> float:
            return sum(float(np.sum(x * w)) for x, w in zip(flatten(fun(*args))[0], weights) if w is not None)
        self.doing = "forward mode of several results"
        forward = self.once("forward", lambda: jit(lambda args, tangents: jvp(self.main, args, tangents)))
        out, tangent = forward(at, direction)
        self._same("value beside the tangent", at, out, value)
        slope = sum(float(np.sum(x * w)) for x, w in zip(flatten_like(structure, tangent), weights) if w is not None)
        self.doing = "pullback"
        pull = self.once("pull", lambda: jit(lambda args, ct: vjp(self.main, *args)[1](ct)))
        gradient = tuple(pull(at, cotangent)[i] for i in self.floats)
        if not np.isfinite(slope) or not finite(gradient):
            return
        self._same("pullback against forward mode", at, self._dot(gradient, direction, at), slope, 1e-7)
        self._count("several")
        if not self.stopped and not self.single:
            numeric, smooth = difference(weighed, at, direction)
            if smooth and abs(slope) < STEEP:
                self._same("forward mode of several results against differences", at, slope, numeric, 1e-4)

    def _second(self, at: tuple[Any, ...], direction: tuple[Any, ...]) -> None:
        """The gradient in one direction has a gradient too: reverse over reverse, against forward over reverse."""
        self.doing = "second derivative"

        def along(*args: Any) -> Any:
            *args, tangents = args
            return jvp(grad(self.main, self.floats), tuple(args), tangents)[1]

        def slope(*args: Any) -> Any:
            *args, tangents = args
            return jvp(self.main, tuple(args), tangents)[1]
        forward = self.once("along", lambda: jit(along))(*at, direction)
        reverse = self.once("slope", lambda: jit(grad(slope, self.floats)))(*at, direction)
        if not finite(forward) or not finite(reverse):
            return
        self._same("second derivative, forward over reverse against reverse over forward", at, forward, reverse, 1e-6)
        gradient = self.once("gradient", lambda: jit(grad(self.main, self.floats)))
        numeric, smooth = difference(lambda *a: self._dot(gradient(*a), direction, a), at, direction)
        if smooth and not self.stopped:
            self._same("second derivative against differences", at, self._dot(forward, direction, at), numeric, 1e-3)
            self._count("second")

    def _mapped(self, at: tuple[Any, ...]) -> None:
        """``vmap`` over the first float is a loop."""
        if "vmap" not in self.checks or not hasattr(jitad, "vmap") or not isinstance(at[0], float):
            return
        self.doing = "vmap"
        values = np.array([at[0], at[0] * 0.5 + 0.1, -at[0]])
        fun = jit(self.main)
        want = [outcome(fun, x, *at[1:]) for x in values]
        if any(isinstance(w, Exception) for w in want):
            return
        axes = (0, *[None] * (len(at) - 1))
        mapped = self.once("vmap", lambda: jit(jitad.vmap(self.main, in_axes=axes)))
        self._same("vmap against a loop", at, mapped(values, *at[1:]), np.array(want))
        slopes = np.array([grad(self.main)(x, *at[1:]) for x in values])
        if np.all(np.isfinite(slopes)):
            mapped = self.once("vmap grad", lambda: jit(jitad.vmap(grad(self.main), in_axes=axes)))
            self._same("vmap of the gradient against a loop", at, mapped(values, *at[1:]), slopes, 1e-7)
        self._count("vmap")

    # --- comparing ----------------------------------------------------------------------------------

    def _by_definition(self, at: tuple[Any, ...], run: Callable[[], Any], got: Any) -> None:
        """Against the reference interpreter, which is slow, and slower with each order of a derivative."""
        try:
            with plain.limited(LONGEST):
                meant = run()
        except plain.TooLong:
            return
        self._same(self.doing, at, meant, got, 1e-4 if self.single else 1e-7)
        self._count(self.doing)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _same(self, check: str, at: tuple[Any, ...], got: Any, want: Any, rtol: float | None = None) -> None:
        if not agree(got, want, self.tolerance if rtol is None else rtol):
            raise Wrong(check, f"{got!r} is not {want!r} at {at!r}")

    def _direction(self, at: tuple[Any, ...]) -> tuple[Any, ...]:
        leaves, structure = flatten(at)
        return unflatten(structure, [
            np.cos(np.arange(x.size).reshape(x.shape) * 2.1 + i) if isinstance(x, np.ndarray) and is_float(x)
            else 0.6 + 0.3 * i % 1.0 if is_float(x) else None for i, x in enumerate(leaves)])

    def _dot(self, gradient: Any, direction: tuple[Any, ...], at: tuple[Any, ...]) -> float:
        """Of a gradient by the float arguments and a direction of all."""
        total = 0.0
        for g, i in zip(gradient, self.floats):
            structure = flatten(at[i])[1]
            left, right = flatten_like(structure, g), flatten_like(structure, direction[i])
            total += sum(float(np.sum(np.asarray(x) * y)) for x, y in zip(left, right, strict=True) if y is not None)
        return total


class Unsettled:
    """CPython's value is not known well enough."""


class TooLong:
    """CPython's value was not waited for."""


class Unoptimised:
    """A jitted function that is compiled without the passes that only make code better."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun

    def __call__(self, *args: Any) -> Any:
        passes = [entry for entry in pipeline.PIPELINE if entry[1] in NEEDED]
        with mock.patch.object(pipeline, "PIPELINE", passes):
            return self.fun(*args)
