"""Builtins and functions of the standard library that are refused, with the reason and an alternative.

Functions in ``ALWAYS`` have side effects, or need the interpreter, which compiled code does not have.  Functions in
``_AT_RUN_TIME`` are evaluated while tracing if their arguments are known, and are not supported for run-time values.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from ..values.closures import TEXT

_OUTPUT = "return the value, or print outside"
_INPUT = "call it outside and pass the result"
_NAMES = "name the variables"

ALWAYS: dict[Any, tuple[str, str]] = {
    print: ("`print` in compiled code", _OUTPUT),
    input: ("`input` in compiled code", "pass the value"),
    open: ("`open` in compiled code: files change between calls", _INPUT),
    eval: ("`eval` in compiled code", "write a function"),
    exec: ("`exec` in compiled code", "write a function"),
    compile: ("`compile` in compiled code", "write a function"),
    locals: ("`locals`: compiled code has no table of its variables", _NAMES),
    globals: ("`globals`: compiled code has no table of its variables", _NAMES),
    vars: ("`vars`: compiled code has no table of its variables", _NAMES),
    dir: ("`dir` in compiled code", "`hasattr`"),
    id: ("`id`: values in compiled code have no address that stays", "`is`, or a number of your own"),
    breakpoint: ("`breakpoint` in compiled code", "run `f.py_func`, or `f.inspect(\"ir\", …)`"),
    __import__: ("`__import__` in compiled code", "`import`"),
    delattr: ("`delattr`: the fields of an object are known while compiling", "set it to None"),
    object: ("`object()` in compiled code", "a constant made outside, or an int"),
    memoryview: ("`memoryview` in compiled code", "an array"),
    bytearray: ("`bytearray` in compiled code", "an array of integers"),
    functools.lru_cache: ("`functools.lru_cache`: compiled code keeps no results between calls", "an array of results"),
    functools.cache: ("`functools.cache`: compiled code keeps no results between calls", "an array of results"),
    collections.defaultdict: ("`collections.defaultdict` in compiled code",
                              "a dict: `d[k] = d.get(k, 0.0) + x`, `d.setdefault(k, []).append(x)`"),
    warnings.warn: ("`warnings.warn` in compiled code", "`raise`, or return a flag, `bool(x < 0)`, and warn outside"),
    sys.exit: ("`sys.exit` in compiled code", "`raise` an exception, and exit outside"),
    itertools.count: ("`itertools.count` has no end", "`while True:` with a counter"),
    itertools.cycle: ("`itertools.cycle` has no end", "an index modulo the length"),
    **{f: (f"`{f.__name__}` inside a traced function", "define the class at module level")
       for f in (classmethod, staticmethod, property)},
    **{getattr(builtins, name): (f"`{name}` in compiled code", _OUTPUT)
       for name in ("help", "exit", "quit", "copyright", "credits", "license") if hasattr(builtins, name)},
    **{getattr(contextlib, name): (f"`contextlib.{name}`: there is no `with` in compiled code", "call it outside")
       for name in ("contextmanager", "suppress", "nullcontext")},
}

_AT_RUN_TIME: dict[Any, str] = {
    **dict.fromkeys((str, repr, format, ascii, hex, oct, chr), TEXT),
    bin: "`n.bit_count()` and `n.bit_length()`, or shifts: `n >> k & 1`",
    hash: "a number computed from the value",
    complex: "two floats, or an array with an axis of two",
    set: "an array; elements of sets must be known while tracing",
    frozenset: "an array; elements of sets must be known while tracing",
    bytes: "an array of integers",
}
ELSE = "use Python arithmetic, `math` or NumPy, or a function written in Python"


def rule(fun: Any) -> Callable[..., Any]:
    """The rule of a function that is refused at every call."""
    what, hint = ALWAYS[fun]
    return lambda t, *args, **kwargs: t.unsupported(what, hint)


def hint(fun: Any) -> str:
    """A hint for an alternative to a call of ``fun`` with run-time values."""
    if isinstance(getattr(fun, "__self__", None), str):
        return TEXT
    try:
        return _AT_RUN_TIME.get(fun, ELSE)
    except TypeError:
        return ELSE
