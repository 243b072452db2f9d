"""NumPy's elementwise functions of floats (sign, parts, neighbours), of integers, and of complex numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..marks import constant, refuse

# --- sign and kind ----------------------------------------------------------------------------------


def signbit(x: Any) -> Any:
    return np.copysign(1.0, constant(x)) < 0


def isposinf(x: Any) -> Any:
    return np.asarray(x) == math.inf


def isneginf(x: Any) -> Any:
    return np.asarray(x) == -math.inf


def isreal(x: Any) -> Any:
    return np.ones(np.shape(x), bool)


def iscomplex(x: Any) -> Any:
    return np.zeros(np.shape(x), bool)


def imag(val: Any) -> Any:
    return np.zeros_like(np.asarray(val))


def angle(z: Any, deg: bool = False) -> Any:
    """0 or π; the derivative is 0."""
    z = floats(z)
    turned = np.arctan2(np.zeros_like(z), constant(z))
    return turned * (180 / math.pi) if deg else turned


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    a = np.asarray(a, dtype, order)
    if not np.all(np.isfinite(a)):
        raise ValueError("array must not contain infs or NaNs")
    return a


# --- parts ------------------------------------------------------------------------------------------

def floats(x: Any) -> Any:
    """In the dtype in which NumPy computes functions of floats; ``np.fabs`` refuses half precision."""
    x = np.asarray(x)
    return x if np.issubdtype(x.dtype, np.floating) else x.astype(np.fabs(x).dtype)


def modf(x: Any) -> Any:
    """Returns the fractional and the integral part; the fraction has the sign of ``x`` and is 0 for infinity."""
    x = floats(x)
    return np.where(np.isinf(x), np.copysign(0.0, x), np.fmod(x, 1.0)).astype(x.dtype), np.trunc(x)


def power_of_two(k: Any, bits: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)) -> Any:
    """2ᵏ exactly, for -1022 ≤ k ≤ 1023: the product of the powers that the bits of ``k`` select."""
    size = np.abs(k)
    out: Any = 1.0
    for bit in bits:
        out = out * np.where(size & bit != 0, 2.0 ** bit, 1.0)
    return np.where(k < 0, 1.0 / out, out)


def ldexp(x1: Any, x2: Any) -> Any:
    x2 = np.asarray(x2)
    if isinstance(x1, int) and x2.dtype not in (np.int64, np.int32):
        refuse("`np.ldexp` of an int and narrow integers, which NumPy computes in float16", "float(...)")
    x1 = floats(x1)
    if x2.dtype == np.bool:
        x2 = x2.astype(int)
    if not np.can_cast(x2.dtype, np.int64):
        raise TypeError("ufunc 'ldexp' not supported for the input types, and the inputs could not be safely coerced "
                        "to any supported types according to the casting rule ''safe''")
    return scaled(x1.astype(np.float64), x2.astype(np.int64)).astype(x1.dtype)


def scaled(x: Any, k: Any) -> Any:
    """x·2ᵏ, rounded once: the steps before the last are exact unless the result is 0 or infinite."""
    last = np.clip(k, -1022, 1023)
    rest = k - last
    middle = np.clip(rest, -1022, 1023)
    first = np.clip(rest - middle, -1022, 1023)
    return x * power_of_two(first) * power_of_two(middle) * power_of_two(last)


def frexp(x: Any) -> Any:
    x = floats(x)
    fraction, exponent = halved(x.astype(np.float64))
    return fraction.astype(x.dtype), exponent.astype(np.int32)


def halved(x: Any) -> Any:
    """Returns a fraction in [0.5, 1) and its exponent; corrects the logarithm, which is off by at most one."""
    regular = np.isfinite(x) & (x != 0)
    y = np.where(regular, x, 1.0)
    tiny, huge = np.abs(y) < 2.0 ** -900, np.abs(y) > 2.0 ** 900
    y = y * np.where(tiny, 2.0 ** 200, np.where(huge, 2.0 ** -200, 1.0))
    k = np.floor(np.log2(np.abs(constant(y)))).astype(np.int64) + 1
    y = y * power_of_two(-k)
    large, small = np.abs(y) >= 1, np.abs(y) < 0.5
    y = np.where(large, y * 0.5, np.where(small, y * 2.0, y))
    k = k + np.where(large, 1, np.where(small, -1, 0)) - np.where(tiny, 200, np.where(huge, -200, 0))
    return np.where(regular, y, x), np.where(regular, k, 0)


# --- neighbours -------------------------------------------------------------------------------------

def step(x: Any, dtype: Any, towards_zero: Any) -> Any:
    """The distance to the next number of ``dtype``; below a power of two it is half as large."""
    fraction, exponent = halved(constant(x))
    shorter = towards_zero & (np.abs(fraction) == 0.5)
    digits, least = (24, -149) if dtype == np.float32 else (53, -1074)
    wanted = np.where(x == 0, least, exponent - digits - np.where(shorter, 1, 0))
    regular = np.maximum(wanted, -1022)
    return power_of_two(regular) * power_of_two(np.maximum(wanted, least) - regular, (1, 2, 4, 8, 16, 32))


def spacing(x: Any) -> Any:
    x = floats(x)
    wide = x.astype(np.float64)
    size = np.where(np.abs(wide) == np.finfo(x.dtype).max, math.inf, step(wide, x.dtype, False))
    return np.where(np.isfinite(wide), np.where(wide < 0, -size, size), math.nan).astype(x.dtype)


def nextafter(x1: Any, x2: Any) -> Any:
    dtype = np.result_type(x1, x2)
    dtype = dtype if np.issubdtype(dtype, np.floating) else np.arctan2(x1, x2).dtype
    x, y = np.asarray(x1).astype(np.float64), constant(np.asarray(x2).astype(np.float64))
    up = y > x
    by = step(x, dtype, np.where(up, x < 0, x > 0))
    moved = np.where(x == 0, x + np.copysign(by, y), x + np.where(up, by, -by))
    moved = np.where(moved == 0, np.copysign(moved, constant(x)), moved)
    moved = np.where(np.isinf(x), np.copysign(np.finfo(dtype).max, constant(x)), moved)
    moved = np.where(x == y, np.copysign(x, y), np.where(np.isnan(x) | np.isnan(y), x + y, moved))
    return moved.astype(dtype)


# --- integers ---------------------------------------------------------------------------------------

def gcd(x1: Any, x2: Any) -> Any:
    return _of_pairs(_gcd, "gcd", _number(x1), _number(x2))


def lcm(x1: Any, x2: Any) -> Any:
    return _of_pairs(_lcm, "lcm", _number(x1), _number(x2))


def _number(x: Any) -> Any:
    """``x`` as an array; a Python int stays as it is, since it has no dtype of its own."""
    return x if isinstance(x, int) else np.asarray(x)


def _of_pairs(fun: Any, name: str, x1: Any, x2: Any) -> Any:
    dtype = np.result_type(x1, x2)
    if not np.issubdtype(dtype, np.integer):
        raise TypeError(f"ufunc '{name}' did not contain a loop with signature matching types")
    x1, x2 = np.broadcast_arrays(np.asarray(x1, dtype), np.asarray(x2, dtype))
    if x1.ndim == 0:
        return fun(x1, x2)
    a, b = np.ravel(x1), np.ravel(x2)
    out = np.empty(len(a), dtype)
    for i in range(len(a)):
        out[i] = fun(a[i], b[i])
    return out.reshape(x1.shape)


def gcd_reduce(array: Any, axis: int = 0) -> Any:
    array = _vector("gcd", array, axis)
    out = array.dtype.type(0)
    for x in array:
        out = _gcd(out, x)
    return out


def lcm_reduce(array: Any, axis: int = 0) -> Any:
    """The least common multiple along ``axis``; a single number is returned with its sign, as in NumPy."""
    array = _vector("lcm", array, axis)
    if len(array) == 0:
        raise ValueError("zero-size array to reduction operation lcm which has no identity")
    out = array[0]
    for x in array[1:]:
        out = _lcm(out, x)
    return out


def _vector(name: str, array: Any, axis: int) -> Any:
    array = np.asarray(array)
    if array.ndim != 1 or axis not in (0, -1):
        refuse(f"`np.{name}.reduce` of anything but a vector", f"a loop over the axis, with `np.{name}`")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"ufunc '{name}' did not contain a loop with signature matching types")
    return array


def _gcd(a: Any, b: Any) -> Any:
    while b != 0:
        a, b = b, a % b
    return abs(a)


def _lcm(a: Any, b: Any) -> Any:
    shared = _gcd(a, b)
    return abs(a) // shared * abs(b) if shared != 0 else shared
