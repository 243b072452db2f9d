"""Functions of the standard library and of NumPy that are no operation of the IR, written out in Python.

They are traced like the user's own functions, and differentiated with them.  ``WRITTEN`` says which stands for which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import floats, integers, sums

WRITTEN: dict[Any, Callable[..., Any]] = {
    **{getattr(math, name): getattr(integers, name) for name in ("gcd", "lcm", "isqrt", "factorial", "perm", "comb")},
    **{getattr(math, name): getattr(floats, name) for name in ("gamma", "modf", "ldexp", "frexp", "remainder")},
    **({math.sumprod: sums.sumprod} if hasattr(math, "sumprod") else {}),
}
INT_METHODS: dict[str, Callable[..., Any]] = {"bit_length": integers.bit_length, "bit_count": integers.bit_count}
