"""The verdict on a program: compares all ways to compute the same result.

A program is the source of a module with ``main`` and ``INPUTS``.  Its value is computed by CPython, the interpreter
and compiled code.  Reverse mode is compared with forward mode, its transpose, and with central differences where the
program is smooth (``slopes.py``); and so on.  Compilation takes most of the time: one function (value and gradient) is
compiled for every program, others for some programs: ``CHECKS``.
"""

from __future__ import annotations

import copy
import linecache
import os
import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from jitad import interpret, jit, pipeline
from jitad.frontend.values.values import tracing
from jitad.passes.shapes import size_versions
from tests.fuzzing import plain
from tests.fuzzing.compare import (
    REFUSALS,
    TELLING,
    Function,
    agree,
    array_references,
    finite,
    is_number,
    meaningless,
    outcome,
    shaken,
    steady,
)
from tests.fuzzing.comparing import LONGEST, Wrong
from tests.fuzzing.excused import excused
from tests.fuzzing.otherwise import Otherwise
from tests.fuzzing.values import fits, flatten, is_float
from tests.gpu.running import OnDevice
from tests.loop_level.running import looped
from tests.several_threads import little_work

# Checks that run for some programs only, and the fraction of these programs.
CHECKS = {"value alone": 0.12, "gradient alone": 0.05, "forward": 0.2, "interpreter": 0.1, "interpreted gradient": 0.03,
          "second": 0.03, "vmap": 0.03, "checkpoint": 0.02, "checkpoint=True": 0.02, "checkpoint=2": 0.02,
          "unoptimised": 0.05, "unchecked": 0.05, "parallel": 0.03, "default level": 0.03, "verify": 0.04,
          "fastmath": 0.03, "method": 0.03, "static": 0.03, "loops": 0.03, "device": 0.03,
          "sizes": 0.15}
ALL = frozenset(CHECKS)
NOISE = 1e-9                            # of a derivative by differences
FIRST = 10.0                            # seconds for the first call of a program that may not end: see ``Pool``'s limit
# A tangent that is a tree has to be built separately from the tree that it belongs to.
REFUSED_WHILE_RUNNING = "a tangent is a tree of another shape than its value"


@dataclass
class Verdict:
    """``what``: "ok", "idle" (nothing could be compared), "refused", "invalid" (not a Python program) or "wrong"."""

    what: str
    check: str = ""                     # the check that failed
    detail: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return ": ".join(x for x in (self.what, self.check, self.detail) if x)


def sample(seed: int) -> frozenset[str]:
    """The checks for a program with this seed."""
    r = random.Random(~seed)
    return frozenset(name for name, part in CHECKS.items() if r.random() < part)


def load(source: str, name: str = "<random program>") -> dict[str, Any]:
    """The module of a source text."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "random_program"}
    sys.modules.setdefault("random_program", type(sys)("random_program"))        # dataclasses look it up
    exec(compile(source, name, "exec"), space)
    return space


def verdict(source: str, checks: Iterable[str] = ALL) -> Verdict:
    """The verdict on a program."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            space = load(source)
            checker = Checker(space, frozenset(checks), source)
        except Exception as e:
            return Verdict("invalid", detail=repr(e))
        try:
            with environment(JITAD_OPT="0", JITAD_DEBUG="1" if "verify" in checks else "0"):
                checker.check()
            found = Verdict("ok" if checker.counts else "idle", "", checker.excused, checker.counts)
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
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


class Checker(Otherwise):
    """Checks one program.  ``excused``: the last difference that is not a fault."""

    excused = ""

    def check(self) -> None:
        known = [(at, *self.python(at)) for at in self.inputs]
        self.scalar = any(is_number(want) for _, want, _ in known)
        for at, want, how in known:
            self.floats = tuple(i for i, x in enumerate(at) if any(map(is_float, flatten(x)[0])))
            if want is TooLong or meaningless(want):
                continue
            try:
                self.telling(at, want, how)
            except Wrong as wrong:
                if not excused(self, at, wrong.check):
                    raise
                self.excused = f"{wrong.check}: {wrong.detail}"
                self.counts["excused"] = self.counts.get("excused", 0) + 1

    def like(self, source: str) -> Checker:
        """The same checks of another program with the same arguments."""
        other = Checker(load(source, "<random program, shaken>"), self.checks, source)
        other.floats, other.scalar = self.floats, self.scalar
        return other

    def telling(self, at: tuple[Any, ...], want: Any, how: str) -> None:
        """Checks one input; an exception that the program has not raised before is wrong."""
        try:
            self.one(at, want, how)
        except TELLING as e:
            if REFUSED_WHILE_RUNNING in str(e):
                raise
            raise Wrong(f"{self.doing}, {type(e).__name__}", str(e)[:300]) from e

    def one(self, at: tuple[Any, ...], want: Any, how: str) -> None:
        """Checks one input.  A float result comes with its gradient, in one compilation."""
        self.doing = "value"
        both = self.scalar and bool(self.floats)
        fun = self._compiled("main")
        got = self._first(fun, at, how)
        if got is TooLong:
            return
        value, gradient = got if both and not isinstance(got, Exception) else (got, None)
        if both and isinstance(got, Exception) and isinstance(want, Exception) and not agree(got, want, 0.0):
            value = outcome(self.once("main", Any), *copy.deepcopy(at))      # a gradient may fail elsewhere first
        if how == "chaos" or how == "unknown" and not steady(lambda *near: self._value(fun, near), at, value):
            return
        if how == "known":
            self.counts["value"] = self.counts.get("value", 0) + 1
            self.compared["value"] = value, want
            if not agree(value, want, 1e-5 if self.derives else self.tolerance) and self._confirmed(at, value, want):
                raise Wrong("value", f"compiled {value!r}, CPython {want!r} at {at!r}")
        if "interpreter" in self.checks:
            self.doing = "interpreter"
            self.by_definition(at, lambda: outcome(interpret, self.main, *copy.deepcopy(at)), value)
        if both and "value alone" in self.checks:
            self.doing = "value alone"
            self.same(self.doing, at, outcome(self.once("main", Any), *copy.deepcopy(at)), value)
        for i, part in zip(self.floats, gradient or ()):
            if not fits(at[i], part):
                raise Wrong("gradient's structure", f"{part!r} of {at[i]!r}")
        certain = both and gradient is not None and self.certain(fun, at, gradient)
        self._variants(at, got, value, certain)
        self.with_constants(at)
        if certain and finite(value) and finite(gradient):
            self.as_method(at, value, gradient)
            if "fastmath" in self.checks:
                self.doing = "fastmath"
                self.fast(at, fun, value, gradient, self._compiled("fastmath", fastmath=True))
        if isinstance(got, Exception) or not finite(value):
            return
        if self.floats and is_number(value):
            if not both:                                      # CPython did not show that it is a float
                fun = self.once("main", Any).value_and_grad
                again, gradient = fun(*at)
                self.same("value beside the gradient", at, again, value)
                certain = self.certain(fun, at, gradient)
            if certain:
                self.derivatives(fun, at, value, gradient)
                self.mapped(fun, at)
        elif self.floats and any(map(is_float, flatten(value)[0])):
            self.several(fun, at, value)

    def _compiled(self, name: str, **options: Any) -> Function:
        """The compiled program, or its value and gradient if it has one."""
        made = self.once(name, lambda: jit(self.main, grad=self.floats or False, **options))
        found: Function = made.value_and_grad if self.scalar and self.floats else made
        return found

    def _first(self, fun: Function, at: tuple[Any, ...], how: str) -> Any:
        """The outcome of the call that compiles; ``TooLong`` if CPython did not end either.

        With "sizes", the program has versions for the small sizes of these arguments (``size_versions``).
        """
        fewest = 1 if "sizes" in self.checks else size_versions.FEWEST
        with (environment(JITAD_OPT="1" if "default level" in self.checks else "0"),
              mock.patch.object(size_versions, "FEWEST", fewest)):
            if how == "known":
                return self._called(fun, at)
            try:
                with plain.limited(FIRST):
                    return self._called(fun, at)
            except plain.TooLong:
                return TooLong

    def _called(self, fun: Function, at: tuple[Any, ...]) -> Any:
        """The outcome of a call on copies of the arguments."""
        given, before = copy.deepcopy(at), copy.deepcopy(at)
        references = array_references(given)
        got = outcome(fun, *given)
        if not agree(given, before, 0.0):
            raise Wrong("arguments", f"changed to {given!r} from {before!r}")
        if references != array_references(given) and not isinstance(got, Exception):
            raise Wrong("references", "a call keeps references to its arguments")
        return got

    def _value(self, fun: Function, at: tuple[Any, ...]) -> Any:
        got = outcome(fun, *copy.deepcopy(at))
        return got[0] if self.scalar and self.floats and not isinstance(got, Exception) else got

    def python(self, at: tuple[Any, ...]) -> tuple[Any, str]:
        """CPython's result, and its reliability.

        "known"; "unknown" if it is unreliable, even its termination (differences may have given up before); "chaos" if
        the last bit of the arguments decides, so that two ways of compiling may differ.
        """
        with plain.instead(self.space):
            try:
                want = outcome(self.main, *copy.deepcopy(at))
                if not self._steady(at, want, 0.0):
                    return want, "chaos"
                known = not self.derives or not self.stopped and self._steady(at, want, NOISE)
            except plain.Unsure:
                return None, "unknown"
            except plain.TooLong:
                return TooLong, "unknown"
        return want, "known" if known else "unknown"          # differences do not stop

    def _confirmed(self, at: tuple[Any, ...], value: Any, want: Any) -> bool:
        """True if CPython's result still differs when its differences are taken closer.

        If CPython raised, for example because a difference is not exactly 1, the reference interpreter must differ too.
        """
        if not self.derives:
            return True
        if isinstance(want, Exception) and not isinstance(value, Exception):
            try:
                with plain.limited(LONGEST):
                    return not agree(value, outcome(interpret, self.main, *copy.deepcopy(at)), 1e-5)
            except plain.TooLong:
                return True
        with plain.closer():
            want, how = self.python(at)
        return how == "known" and not agree(value, want, 1e-5)

    def _steady(self, at: tuple[Any, ...], want: Any, noise: float) -> bool:
        """True if the result is insensitive to the last bits of the arguments, or of derivatives by differences."""
        for by in (1.0, -1.0):
            with plain.noise(noise * by):
                near = outcome(self.main, *shaken(at, 1e-13 * by))
            if not agree(near, want, 1e-6 if self.derives else self.tolerance):
                return False
        return True

    def _device_function(self) -> Function:
        """The program, or its value and gradient, for the simulated GPU."""
        fun = jit(self.main, grad=self.floats or False, target="cuda-sim")
        found: Function = fun.value_and_grad if self.scalar and self.floats else fun
        return found

    def _variants(self, at: tuple[Any, ...], got: Any, value: Any, certain: bool) -> None:
        """Compares with other ways of compiling, including the gradient if it is reliable."""
        both = self.scalar and bool(self.floats)

        def compare(fun: Function) -> None:
            other = outcome(fun, *copy.deepcopy(at))
            if not both or isinstance(got, Exception) or isinstance(other, Exception):
                self.same(self.doing, at, other, value if agree(other, value, 0.0) else got)
                return
            self.same(self.doing, at, other[0], got[0])
            if certain:
                self.same(f"{self.doing} gradient", at, other[1], got[1], 1e-7)
        if "unchecked" in self.checks and not isinstance(got, Exception):
            self.doing = "boundscheck=False"
            compare(self._compiled("unchecked", boundscheck=False))
        if "unoptimised" in self.checks:
            self.doing = "unoptimised"
            compare(Unoptimised(self._compiled("unoptimised")))
        if "loops" in self.checks:
            self.doing = "loops"
            with suppress(plain.TooLong), plain.limited(LONGEST):
                compare(self.once("loops", lambda: AtLoopLevel(jit(self.main, grad=self.floats or False), both)))
        if "device" in self.checks:
            self.doing = "device"
            compare(self.once("device", lambda: OnDevice(self._device_function())))
        if "parallel" in self.checks:
            self.doing = "parallel"
            compare(Several(self._compiled("parallel", parallel=True)))


class AtLoopLevel:
    """A jitted function, or its value and gradient, that the interpreter of the loop level runs."""

    def __init__(self, fun: Any, gradient: bool) -> None:
        self.fun = fun.value_and_grad if gradient else fun

    def __call__(self, *args: Any) -> Any:
        return looped(self.fun, *args, backwards=True)


class Several:
    """A jitted function whose independent loops run on several threads, even for little work."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun

    def __call__(self, *args: Any) -> Any:
        with little_work():
            return self.fun(*args)


class TooLong:
    """Stands for a value of CPython that takes too long."""


class Unoptimised:
    """A jitted function that is compiled without optional passes."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun

    def __call__(self, *args: Any) -> Any:
        with environment(JITAD_WITHOUT=",".join(pipeline.OPTIONAL)):
            return self.fun(*args)
