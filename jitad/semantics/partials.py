"""Partial derivatives of the elementwise primitives: one line each, with an entry for each operand, None for zero.

At kinks: ``abs`` 0, ties of ``maximum`` and ``minimum`` half and half, ``sqrt`` at 0 inf, ``hypot`` at (0, 0) 0,
``x ** y`` by ``y`` 0 where x ≤ 0.  Source: *NIST Digital Library of Mathematical Functions* (https://dlmf.nist.gov),
chapters 4 (elementary functions), 5 (gamma) and 7 (error function).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .trace import emit

Partial = Callable[..., Any] | None


def _primitive(op: str) -> Callable[..., Any]:
    return lambda *xs: emit(op, *xs)


exp, log, sqrt, sin, cos, sinh, cosh, tanh = map(_primitive, "exp log sqrt sin cos sinh cosh tanh".split())
sign, hypot, copysign, floordiv, cbrt = map(_primitive, "sign hypot copysign floordiv cbrt".split())
exp2, digamma, polygamma = map(_primitive, "exp2 digamma polygamma".split())
power, equal, greater, both, where = map(_primitive, "pow eq gt and select".split())


def _larger(x: Any, y: Any) -> Any:
    """1 where x > y, ½ where x = y."""
    one = x.dtype.type(1)
    return where(greater(x, y), one, where(equal(x, y), one / 2, one * 0))


def _power_by_base(x: Any, y: Any) -> Any:
    """y x^(y−1); 0 for x⁰, at x = 0 too, where x^(y−1) is inf."""
    return y * power(where(both(equal(x, 0.0), equal(y, 0.0)), x.dtype.type(1), x), y - 1.0)


def _power_by_exponent(x: Any, y: Any) -> Any:
    one = x.dtype.type(1)
    return where(equal(x, 0.0), one * 0, power(x, y)) * log(where(greater(x, 0.0), x, one))


def _over_length(v: Any, x: Any, y: Any) -> Any:
    r = hypot(x, y)
    return v / where(equal(r, 0.0), x.dtype.type(1), r)


PARTIALS: dict[str, tuple[Partial, ...]] = {
    "add": (lambda x, y: 1.0, lambda x, y: 1.0),
    "sub": (lambda x, y: 1.0, lambda x, y: -1.0),
    "mul": (lambda x, y: y, lambda x, y: x),
    "div": (lambda x, y: 1.0 / y, lambda x, y: -(x / y) / y),
    "pow": (_power_by_base, _power_by_exponent),
    "mod": (lambda x, y: 1.0, lambda x, y: -floordiv(x, y)),
    "floordiv": (None, None),
    "atan2": (lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)),
    "hypot": (lambda x, y: _over_length(x, x, y), lambda x, y: _over_length(y, x, y)),
    "copysign": (lambda x, y: copysign(1.0, x) * copysign(1.0, y), None),
    "maximum": (lambda x, y: _larger(x, y), lambda x, y: _larger(y, x)),
    "minimum": (lambda x, y: _larger(y, x), lambda x, y: _larger(x, y)),
    "neg": (lambda x: -1.0,),
    "abs": (lambda x: sign(x),),
    "sign": (None,),
    "floor": (None,),
    "ceil": (None,),
    "trunc": (None,),
    "round": (None,),
    "stop": (None,),
    "sqrt": (lambda x: 1.0 / (2.0 * sqrt(x)),),
    "cbrt": (lambda x: 1.0 / (3.0 * cbrt(x) * cbrt(x)),),
    "exp": (lambda x: exp(x),),
    "exp2": (lambda x: math.log(2.0) * exp2(x),),
    "expm1": (lambda x: exp(x),),
    "log": (lambda x: 1.0 / x,),
    "log2": (lambda x: 1.0 / (x * math.log(2.0)),),
    "log10": (lambda x: 1.0 / (x * math.log(10.0)),),
    "log1p": (lambda x: 1.0 / (1.0 + x),),
    "sin": (lambda x: cos(x),),
    "cos": (lambda x: -sin(x),),
    "tan": (lambda x: 1.0 / (cos(x) * cos(x)),),
    "asin": (lambda x: 1.0 / sqrt(1.0 - x * x),),
    "acos": (lambda x: -1.0 / sqrt(1.0 - x * x),),
    "atan": (lambda x: 1.0 / (1.0 + x * x),),
    "sinh": (lambda x: cosh(x),),
    "cosh": (lambda x: sinh(x),),
    "tanh": (lambda x: (1.0 - tanh(x)) * (1.0 + tanh(x)),),
    "asinh": (lambda x: 1.0 / hypot(x, 1.0),),
    "acosh": (lambda x: 1.0 / sqrt(x * x - 1.0),),
    "atanh": (lambda x: 1.0 / (1.0 - x * x),),
    "erf": (lambda x: 2.0 / math.sqrt(math.pi) * exp(-(x * x)),),
    "erfc": (lambda x: -2.0 / math.sqrt(math.pi) * exp(-(x * x)),),
    "lgamma": (lambda x: digamma(x),),
    "digamma": (lambda x: polygamma(x.dtype.type(1), x),),
    "polygamma": (None, lambda n, x: polygamma(n + 1.0, x)),
}
