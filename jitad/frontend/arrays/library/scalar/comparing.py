"""Comparisons of whole arrays, and of their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    a1, a2 = np.asarray(a1), np.asarray(a2)
    if a1.shape != a2.shape:
        return False
    alike = a1 == a2
    if equal_nan:
        alike = alike | np.isnan(a1) & np.isnan(a2)
    return bool(np.all(alike))


def array_equiv(a1: Any, a2: Any) -> bool:
    a1, a2 = np.asarray(a1), np.asarray(a2)
    for m, n in zip(reversed(a1.shape), reversed(a2.shape)):
        if m != n and m != 1 and n != 1:
            return False
    return bool(np.all(a1 == a2))


def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    shapes = [tuple(s) if isinstance(s, (list, tuple)) else (s,) for s in args]
    rank = max([len(s) for s in shapes])
    out = []
    for k in tuple(range(-rank, 0)):
        size = 1
        for n in [s[k] for s in shapes if len(s) >= -k]:
            if n != 1 and size != 1 and n != size:
                raise ValueError("shape mismatch: objects cannot be broadcast to a single shape.")
            size = size if n == 1 else n
        out.append(size)
    return tuple(out)
