"""Definitions of jitad's functions for CPython: derivatives by differences, loops for ``vmap``, nothing for the rest.

The difference is the central one of sixth order: its error is about 1e-11 for smooth functions, so differences of
differences are still accurate enough.  The difference of fourth order from the same points shows a kink nearby.  The
even part of the function shows a kink at the point itself, to which both differences are blind.  In these cases
``Unsure`` is raised.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fuzzing.captured import kept
from tests.fuzzing.values import Structure, flatten, flatten_like, is_float, unflatten

STEP, CLOSER = 0.01, 0.003
SIXTH = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
FOURTH = {1: 2 / 3, 2: -1 / 12, 3: 0.0}
# The third divided difference of (f(k) + f(-k)) / 2 as a function of k², times 60: of s·|k| it is s, of a smooth
# function of order STEP⁶.
KINK = {0: -60 / 36, 1: 60 / 24, 2: -60 / 60, 3: 60 / 360}
Function = Callable[..., Any]


MOST = 300                          # most derivatives in one run: differences of differences are expensive
_left = MOST
_step = STEP
_noise = 0.0                        # relative error that is added to slopes on purpose, different each time:
_errors = random.Random(0)          # equal ones may cancel
LONGEST = 0.5                       # seconds
LARGEST = 2000                      # MiB
PAGE = os.sysconf("SC_PAGE_SIZE") / 2 ** 20


class Unsure(BaseException):
    """Raised if a kink or a jump is near, or too many derivatives are needed.

    It is not an ``Exception``, so that programs cannot catch it.
    """


class TooLong(BaseException):
    """Raised if CPython takes too long, or does not end."""


def slopes(fun: Callable[[float], Any]) -> tuple[list[Any], Structure]:
    """The derivative at 0 of each float in the result of ``fun``, None for other leaves; undoes all changes."""
    global _left
    _left -= 1
    if _left < 0:
        raise Unsure
    restore = kept(fun)

    def once(k: int) -> tuple[list[Any], Structure]:
        leaves, structure = flatten(fun(k * _step))
        found = [x.copy() if isinstance(x, np.ndarray) else x for x in leaves], structure
        restore()
        return found
    here = once(0)                                  # raises the exceptions of the program
    try:
        at = {k: once(k) if k else here for k in (-3, -2, -1, 0, 1, 2, 3)}
    except Exception:
        raise Unsure from None
    leaves, structure = at[1]
    if any(s != structure for _, s in at.values()):
        raise Unsure
    return [_slope({k: at[k][0][i] for k in at}) if is_float(x) else None for i, x in enumerate(leaves)], structure


def _slope(at: dict[int, Any]) -> Any:
    sixth, fourth = (sum(c * (at[k] - at[-k]) for k, c in of.items()) / _step for of in (SIXTH, FOURTH))
    kink = sum(c * (at[k] + at[-k]) / 2 for k, c in KINK.items()) / _step
    for error in (sixth - fourth, kink):
        if not np.all(np.abs(error) <= 1e-5 * (1 + np.abs(sixth))):
            raise Unsure
    return sixth + _noise * _errors.uniform(0.5, 1.5) * (1 + np.abs(sixth)) if _noise else sixth


def moved(leaves: Sequence[Any], directions: Sequence[Any], by: float) -> list[Any]:
    return [x if d is None else x + by * d for x, d in zip(leaves, directions, strict=True)]


# --- the public names ---------------------------------------------------------------------------------

def jvp(fun: Function, primals: Any, tangents: Any) -> Any:
    leaves, structure = flatten(tuple(primals))
    directions = flatten_like(structure, tuple(tangents))
    found, out = slopes(lambda by: fun(*unflatten(structure, moved(leaves, directions, by))))
    return fun(*primals), unflatten(out, found)


def _basis(leaves: Sequence[Any]) -> Iterator[tuple[int, tuple[int, ...], list[Any]]]:
    """A direction for each float, with its position."""
    for i, x in enumerate(leaves):
        if is_float(x):
            for index in np.ndindex(np.shape(x)):
                unit = np.zeros(np.shape(x))
                unit[index] = 1.0
                yield i, index, [None] * i + [unit if np.shape(x) else 1.0] + [None] * (len(leaves) - i - 1)


def _gradient(value: Function, x: Any) -> Any:
    """The gradient by one argument of any structure."""
    leaves, structure = flatten(x)
    out = [np.zeros(np.shape(v)) if is_float(v) else None for v in leaves]
    for i, index, direction in _basis(leaves):
        (slope, *_), _ = slopes(lambda by, d=direction: value(unflatten(structure, moved(leaves, d, by))))
        out[i][index] = slope
    return unflatten(structure, [g if g is None or np.ndim(g) else float(g) for g in out])


def value_and_grad(fun: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    def derivative(*args: Any) -> Any:
        keys = argnums if isinstance(argnums, tuple) else (argnums,)
        found = []                                              # before the one run that may change captured objects
        for key in keys:
            at = fun.__code__.co_varnames.index(key) if isinstance(key, str) else key
            def value(x: Any, at: int = at) -> Any:
                out = fun(*args[:at], x, *args[at + 1:])
                return out[0] if has_aux else out
            found.append(_gradient(value, args[at]))
        return fun(*args), tuple(found) if isinstance(argnums, tuple) else found[0]
    return derivative


def grad(fun: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    def derivative(*args: Any) -> Any:
        out, gradient = value_and_grad(fun, argnums, has_aux)(*args)
        return (gradient, out[1]) if has_aux else gradient
    return derivative


def _columns(fun: Function, primals: Any) -> tuple[list[Any], Structure, list[tuple[int, tuple[int, ...], list[Any]]],
                                                   Structure]:
    """The leaves and structure of the arguments, the slopes of the result by each float, the result's structure.

    They are taken here and now: what ``fun`` captures may be changed later.
    """
    leaves, structure = flatten(tuple(primals))
    restore = kept(fun)
    columns, out = [], flatten(fun(*primals))[1]
    restore()
    for i, index, direction in _basis(leaves):
        found, out = slopes(lambda by, d=direction: fun(*unflatten(structure, moved(leaves, d, by))))
        columns.append((i, index, found))
    return leaves, structure, columns, out


def _finite(leaves: list[Any]) -> list[Any]:
    """The leaves; NaN times a slope of 0 is 0, as for a value that does not depend on the argument."""
    if not all(np.all(np.isfinite(x)) for x in leaves if is_float(x)):
        raise Unsure
    return leaves


def vjp(fun: Function, *primals: Any) -> Any:
    leaves, structure, columns, out = _columns(fun, primals)

    def pullback(cotangent: Any) -> Any:
        weights = _finite(flatten_like(out, cotangent))
        found = [np.zeros(np.shape(x)) if is_float(x) else None for x in leaves]
        for i, index, slope in columns:
            found[i][index] = sum(np.sum(s * w) for s, w in zip(slope, weights) if s is not None and w is not None)
        return unflatten(structure, [g if g is None or np.ndim(g) else float(g) for g in found])
    return fun(*primals), pullback


def linearize(fun: Function, *primals: Any) -> Any:
    _, structure, columns, out = _columns(fun, primals)

    def push(*tangents: Any) -> Any:
        steps = [np.asarray(d) if d is not None else None for d in _finite(flatten_like(structure, tangents))]
        parts = [[None if s is None else s * steps[i][index] for s in slope]
                 for i, index, slope in columns if steps[i] is not None]
        return unflatten(out, [None if column[0] is None else sum(column) for column in zip(*parts)])
    return fun(*primals), push


def hvp(fun: Function, primals: Any, tangents: Any) -> Any:
    several = len(primals) > 1
    out = jvp(grad(fun, tuple(range(len(primals)))), primals, tangents)[1]
    return out if several else out[0]


def jacfwd(fun: Function, argnums: int = 0) -> Function:
    """The Jacobian of an array (or a float) by an array (or a float)."""
    def derivative(*args: Any) -> Any:
        x = args[argnums]
        restore = kept(fun)
        columns = [slopes(lambda by, d=d: fun(*args[:argnums], x + by * d[0], *args[argnums + 1:]))[0][0]
                   for _, _, d in _basis([x])]
        restore()
        fun(*args)                                              # for its side effects
        found = np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + np.shape(x))
        return found[()]                                        # a scalar as a number: `+=` must not change it
    return derivative


jacrev = jacfwd


def hessian(fun: Function, argnums: int = 0) -> Function:
    return jacfwd(grad(fun, argnums), argnums)


def vmap(fun: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    def mapped(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        (size, *_) = (np.shape(x)[axis] for x, axis in zip(args, axes) if axis is not None)
        outs = [flatten(fun(*[x if axis is None else np.take(x, i, axis) for x, axis in zip(args, axes)]))
                for i in range(size)]
        return unflatten(outs[0][1], [np.stack(column, out_axes) for column in zip(*[leaves for leaves, _ in outs])])
    return mapped


def checkpoint(fun: Function) -> Function:
    return fun


def stop_gradient(x: Any) -> Any:
    return x


def unroll(x: Any) -> Any:
    return x


def _nan_at_infinity(fun: Function) -> Function:
    return lambda x: math.nan if isinstance(x, (float, np.floating)) and np.isinf(x) else fun(x)


def _in_64_bits(fun: Function) -> Function:
    """A conversion to an integer that is limited to 64 bits, as in compiled code."""
    def narrow(*args: Any) -> Any:
        i = fun(*args)
        if isinstance(i, int) and not -2 ** 63 <= i < 2 ** 63:
            raise OverflowError(f"{args[0]} does not fit in 64 bits")
        return i
    return narrow


# `math` as in compiled code (docs/language.md): no error for an infinite angle, integers of 64 bits.
MATH = SimpleNamespace(**vars(math) | {f.__name__: _nan_at_infinity(f) for f in (math.sin, math.cos, math.tan)}
                       | {f.__name__: _in_64_bits(f) for f in (math.floor, math.ceil, math.trunc)})
NAMES: dict[str, Any] = {f.__name__: f for f in (
    checkpoint, grad, hessian, hvp, jacfwd, jvp, linearize, stop_gradient, unroll, value_and_grad, vjp, vmap)} | {
    "jacrev": jacrev, "math": MATH}


@contextmanager
def instead(space: dict[str, Any]) -> Iterator[None]:
    """A context in which these functions replace jitad's in a program's globals."""
    global _left
    _left, before = MOST, dict(space)
    replace(space)
    try:
        with limited(LONGEST):
            yield
    finally:
        space.clear()
        space.update(before)


def replace(space: dict[str, Any]) -> None:
    """Replaces jitad's functions by these permanently; functions with derivative rules lose them."""
    for name, value in list(space.items()):
        if name in NAMES:
            space[name] = NAMES[name]
        elif type(value).__module__.startswith("jitad") and hasattr(value, "fun"):
            space[name] = value.fun
    space |= {"int": _in_64_bits(int), "round": _in_64_bits(round)}


@contextmanager
def noise(relative: float) -> Iterator[None]:
    """A context that adds an error to slopes: the result of some programs depends on their last digits."""
    global _noise
    _noise = relative
    _errors.seed(0)
    try:
        yield
    finally:
        _noise = 0.0


@contextmanager
def closer() -> Iterator[None]:
    """A context with smaller differences, which do not see a nearby kink or jump; used to confirm a finding."""
    global _step
    _step = CLOSER
    try:
        yield
    finally:
        _step = STEP


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context that raises ``TooLong`` after this processor time, or above ``LARGEST`` memory."""
    start = time.process_time()

    def look(*_: Any) -> None:
        if time.process_time() - start >= seconds or memory() > LARGEST:
            raise TooLong
    before = signal.signal(signal.SIGVTALRM, look)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.1, 0.1)       # again, in case the exception is lost
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def memory(process: int | str = "self") -> float:
    """MiB in use."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
