"""A compiled function as a pointer to a C function that returns its result: ``f.address`` and ``f.cfunc``.

SciPy's ``LowLevelCallable``, Numba and C libraries take such callbacks.  Error codes have no place in them: NaN, or 0
for integers, stands for an error.
"""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakKeyDictionary

from ..calling.compiled import lock
from ..calling.dispatch import Dispatcher
from ..errors import UnsupportedError
from ..ir.types import F64
from ..lowering.aot import by_value, platforms
from ..lowering.aot.by_value import Parameter
from ..lowering.aot.interface import Interface, Leaf, c_type
from ..lowering.aot.library import Library
from ..lowering.llvm.target import BLAS, LIBMVEC
from . import exports
from .types import Kind

_C = {"double": ctypes.c_double, "float": ctypes.c_float, "int": ctypes.c_int, "long": ctypes.c_long,
      "bool": ctypes.c_bool, "pointer": ctypes.c_void_p,
      **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}}
_CALLBACK = 'a callback is "double (double, …)" or "double (int, double *)", each with an optional void * at the end'
_known: WeakKeyDictionary[Dispatcher, dict[str, Any]] = WeakKeyDictionary()


def cfunc(fun: Dispatcher, signature: Any) -> Any:
    """See ``f.cfunc``."""
    with lock:
        table = _known.setdefault(fun, {})
        key = repr(signature)
        if key not in table:
            table[key] = _made(fun, signature)
        return table[key]


def address(fun: Dispatcher, signature: Any) -> int:
    """See ``f.address``."""
    return ctypes.cast(cfunc(fun, signature), ctypes.c_void_p).value or 0


def _made(fun: Dispatcher, signature: Any) -> Any:
    name = fun.target.__name__
    is_c = isinstance(signature, str) and signature.strip().startswith("double") and "(" in signature
    kinds, given = _callback(signature) if is_c else (signature, None)
    export = exports.make(fun, kinds, "jitad_callback")
    program = next(iter(exports.programs(export)))
    made = program.interface
    result = _result(made, name)
    if given is None:
        given = by_value.plain(made)
    elif result.dtype != F64:
        raise UnsupportedError(f"{name} returns {result.dtype}, and the callback double")
    platform = platforms.find(None, None, frozenset({BLAS, LIBMVEC}))
    target, symbol = platform.target(), "jitad_callback_by_value"
    text = by_value.wrapper(symbol, made, result.dtype, given, target.triple, target.layout)
    place = by_value.load(Library([platform], [program], [], {symbol: text}), symbol)
    return ctypes.CFUNCTYPE(_C[c_type(result.dtype)], *map(_ctype, given))(place)


def _result(made: Interface, name: str) -> Leaf:
    """The only result of a callback, which is a number."""
    if len(made.results) == 1 and isinstance(made.results[0], Leaf) and not made.results[0].is_array:
        return made.results[0]
    raise UnsupportedError(f"{name} must return one number to be a callback",
                           hint="aot.build makes libraries of functions that return arrays")


def _ctype(given: Parameter) -> Any:
    """The type for ctypes; SciPy reads a callback's signature from it."""
    return ctypes.POINTER(ctypes.c_double) if given.c == "pointer" and given.parts else _C[given.c]


def _callback(text: str) -> tuple[list[Kind], list[Parameter]]:
    """The types of the function's arguments for a callback of this C type, and the callback's parameters."""
    inside = text[text.index("(") + 1:].rstrip().removesuffix(")")
    words = [" ".join(w.replace("*", " * ").split()) for w in inside.split(",")]
    kinds: list[Kind] = []
    given: list[Parameter] = []
    parts = 0
    while words:
        if words[:2] == ["int", "double *"]:
            given += [Parameter("int", (parts + 1,)), Parameter("pointer", (parts,))]
            kinds.append(Kind(F64, (None,)))
            parts += 2
            del words[:2]
        elif words[0] == "double":
            given.append(Parameter("double", (parts,)))
            kinds.append(Kind(F64))
            parts += 1
            del words[0]
        elif words == ["void *"]:
            given.append(Parameter("pointer", ()))
            words.clear()
        else:
            raise ValueError(f"{text!r} is no callback that is known: {_CALLBACK}")
    return kinds, given
