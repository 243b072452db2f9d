"""Checks one differentiable program ``main(x, n, p)`` in every way there is; says what is wrong, if anything.

Its value in CPython, interpreted and compiled; the gradient alone and with the value; forward mode, of which reverse is
the transpose; central differences where the program is smooth; and the gradient of the gradient.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jitad import grad, jit, jvp, pipeline
from jitad.errors import DifferentiationError, TypeInferenceError, UnsupportedError

from . import tracing

Point = tuple[float, int, np.ndarray]
Function = Callable[..., Any]
INPUTS: tuple[Point, ...] = (
    (0.7, 2, np.array([0.3, -0.6, 1.1])),
    (-0.4, 0, np.array([-1.0, 0.55, 0.15])),
    (1.55, 5, np.array([0.05, 2.0, -1.3])),
)
REFUSALS = (UnsupportedError, TypeInferenceError, DifferentiationError)
LONG: tuple[Point, ...] = tuple((x, n, 1.2 * np.sin(np.arange(size) * 1.3 + x)) for x, n, size in
                                ((0.7, 2, 3), (-0.45, 5, 1), (0.35, 3, 700), (1.1, 0, 0)))
DX = 0.6


class Wrong(Exception):
    """What two ways of computing the same thing do not agree on."""


def load(source: str, name: str) -> Function:
    """``main`` of a source text."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(source, name, "exec"), space)
    main: Function = space["main"]
    return main


def verdict(main: Function, second: bool = False, inputs: tuple[Point, ...] = INPUTS) -> str:
    """``ok``, ``refused: …``, ``idle`` (no input gives a finite value), or ``wrong …``."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return "ok" if _check(main, second, inputs) else "idle"
        except REFUSALS as e:
            return f"refused: {e.message}"
        except Wrong as e:
            return f"wrong {e}"
        except Exception as e:
            return f"wrong, {type(e).__name__}: {e}"


def _check(main: Function, second: bool, inputs: tuple[Point, ...]) -> int:
    """How many inputs could be compared."""
    fun = jit(main, grad=("x", "p"))
    traced = tracing.trace(main, *inputs[0])
    pipeline.run(traced.module, [traced.root], stop="adjoint")
    checked = 0
    for at in inputs:
        want = tracing.outcome(main, *at)
        if not tracing.agree(tracing.outcome(main, at[0] * (1 + 1e-15), at[1], at[2] * (1 - 1e-15)), want):
            continue                                         # chaos: the last bit decides
        if isinstance(want, OverflowError):
            continue                                         # Python's own `**`; compiled code has inf
        for way, run in (("interpreted", lambda *a: tracing.run(traced, *a)), ("compiled", fun)):
            got = tracing.outcome(run, *at)
            if not tracing.agree(got, want):
                raise Wrong(f"value, {way}, at n={at[1]}: {got!r}, CPython has {want!r}")
        if isinstance(want, float) and abs(want) < 1e5:
            checked += _derivatives(main, fun, at, want)
            if second:
                _second(main, at)
    return checked


def _direction(at: Point) -> np.ndarray:
    return np.cos(np.arange(len(at[2])) * 2.1 + 0.4)


def _flat(g: Any) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in g])


def _compare(what: str, at: Point, got: Any, want: Any, rtol: float = 1e-8) -> None:
    got, want = np.asarray(got), np.asarray(want)
    if not np.allclose(got, want, rtol=rtol, atol=rtol * (1 + np.max(np.abs(want), initial=0.0)), equal_nan=True):
        raise Wrong(f"{what} at n={at[1]}: {got} is not {want}")


def _derivatives(main: Function, fun: Any, at: Point, value: float) -> bool:
    again, both = fun.value_and_grad(*at)
    gradient = _flat(both)
    _compare("value beside the gradient", at, again, value)
    _compare("gradient alone", at, _flat(fun.grad(*at)), gradient)
    out, forward = _forward(main)(*at, _direction(at))
    _compare("value beside the tangent", at, out, value)
    direction = _flat((DX, _direction(at)))
    if not np.all(np.isfinite(gradient)):                    # 0 * inf on the way is NaN one way, not the other
        return False
    _compare("forward mode (then reverse)", at, forward, gradient @ direction)
    numeric, smooth = _difference(main, at, value)
    if smooth:
        _compare("forward mode (then finite differences)", at, forward, numeric, 1e-4)
    return True


def _forward(main: Function) -> Any:
    known = getattr(main, "forward", None)
    if known is None:
        known = jit(lambda x, n, p, d: jvp(main, (x, n, p), (DX, None, d)))
        main.forward = known                                 # type: ignore[attr-defined]
    return known


def _difference(f: Function, at: Point, value: Any) -> tuple[Any, bool]:
    """The central difference in the direction of ``DX, DP``, and whether the neighbourhood is smooth."""
    x, n, p = at
    d = _direction(at)
    sides = [(f(x + e * DX, n, p + e * d) - value) / e for e in (1e-6, -1e-6, 4e-6, -4e-6)]
    central = (sides[0] + sides[1]) / 2
    near = 1e-3 * (1 + np.max(np.abs(central)))
    return central, bool(all(np.max(np.abs(s - central)) < near for s in sides))


def _second(main: Function, at: Point) -> None:
    """The gradient in one direction has a gradient too."""
    known = getattr(main, "second", None)
    if known is None:
        def slope(x: Any, n: Any, p: Any, d: Any) -> Any:
            gx, gp = grad(main, ("x", "p"))(x, n, p)
            return DX * gx + (d * gp).sum()

        known = jit(slope, grad=("x", "p"))
        main.second = known                                  # type: ignore[attr-defined]
    d = _direction(at)
    value, gradient = known.value_and_grad(*at, d)
    _compare("gradient of the gradient, alone", at, _flat(known.grad(*at, d)), _flat(gradient))
    curvature = _flat(gradient) @ _flat((DX, d))
    numeric, smooth = _difference(lambda x, n, p: known(x, n, p, d), at, value)
    if smooth and np.isfinite(numeric) and abs(numeric) < 1e5:
        _compare("gradient of the gradient (then finite differences)", at, curvature, numeric, 1e-3)
