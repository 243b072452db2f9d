"""Signatures of NumPy's functions and array methods, and the binding of calls to them.

A call is bound by the signature that NumPy documents before a rule sees it.  The rule has the same parameter names, and
may omit some of them.  An argument for an omitted parameter is refused unless it is NumPy's default or has no effect in
compiled code (``MEANS_NOTHING``).  Rules have no ``out`` parameter: ``argument_errors`` writes the result into it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import numpy as np

NO: Any = np._NoValue
OUTS = ("out", "out1", "out2")

# Array methods, and functions whose signature `inspect` does not know, or not completely.
_OF_SUM = "self, axis=None, dtype=None, out=None, keepdims=False, initial=NO, where=True"
_OF_MAX = "self, axis=None, out=None, keepdims=False, initial=NO, where=True"
_OF_VAR = "self, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None"
METHODS: dict[str, str] = {
    **dict.fromkeys(("sum", "prod"), _OF_SUM), **dict.fromkeys(("max", "min"), _OF_MAX),
    **dict.fromkeys(("any", "all"), "self, axis=None, dtype=None, out=None, keepdims=False, *, where=True"),
    **dict.fromkeys(("argmax", "argmin"), "self, /, axis=None, out=None, *, keepdims=False"),
    "mean": "self, axis=None, dtype=None, out=None, keepdims=False, *, where=True",
    **dict.fromkeys(("var", "std"), _OF_VAR),
    **dict.fromkeys(("cumsum", "cumprod"), "self, /, axis=None, dtype=None, out=None"),
    "ravel": "self, /, order='C'", "flatten": "self, /, order='C'", "copy": "self, /, order='C'",
    "reshape": "self, /, *shape, order='C', copy=None", "transpose": "self, /, *axes",
    "swapaxes": "self, axis1, axis2, /", "squeeze": "self, /, axis=None",
    "repeat": "self, /, repeats, axis=None", "take": "self, /, indices, axis=None, out=None, mode='raise'",
    "nonzero": "self, /", "trace": "self, /, offset=0, axis1=0, axis2=1, dtype=None, out=None",
    "diagonal": "self, /, offset=0, axis1=0, axis2=1", "dot": "self, /, b, out=None",
    "clip": "self, min=None, max=None, out=None, **kwargs", "round": "self, /, decimals=0, out=None",
    "astype": "self, /, dtype, order='K', casting='unsafe', subok=True, copy=True",
    "item": "self, /, *args", "tolist": "self, /", "compress": "self, /, condition, axis=None, out=None",
    "conj": "self, out=None, /", "conjugate": "self, out=None, /", "__len__": "self, /", "is_integer": "self, /",
    "fill": "self, value, /", "put": "self, /, indices, values, mode='raise'",
    "sort": "self, /, axis=-1, kind=None, order=None, *, stable=None",
    "argsort": "self, /, axis=-1, kind=None, order=None, *, stable=None",
    "partition": "self, /, kth, axis=-1, kind='introselect', order=None",
    "argpartition": "self, /, kth, axis=-1, kind='introselect', order=None",
    "searchsorted": "self, /, v, side='left', sorter=None",
}
_OF_UFUNC = {
    "reduce": "array, axis=0, dtype=None, out=None, keepdims=False, initial=NO, where=True",
    "accumulate": "array, axis=0, dtype=None, out=None", "outer": "A, B, /, *, where=True, {options}",
    "reduceat": "array, indices, axis=0, dtype=None, out=None", "at": "a, indices, b=NO, /",
}
_OPTIONS = "casting='same_kind', order='K', dtype=None, subok=True, signature=None"
_CORE = "axes=NO, axis=NO, keepdims=False, "
_TEXTS: dict[Any, str] = {
    np.where: "condition, x=NO, y=NO, /",
    np.arange: "start=NO, stop=None, step=None, dtype=None, *, device=None, like=None",
    np.clip: f"a, a_min=NO, a_max=NO, out=None, *, min=NO, max=NO, where=True, {_OPTIONS}",
    np.pad: "array, pad_width, mode='constant', *, constant_values=0, end_values=0, stat_length=None, "
            "reflect_type='even'",
    np.einsum: "subscripts, /, *operands, out=None, optimize=False, dtype=None, order='K', casting='safe'",
    np.concatenate: "arrays, /, axis=0, out=None, *, dtype=None, casting='same_kind'",
    np.array: "object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, ndmax=0, like=None",
    **{f: "a, dtype=None, order=None, *, device=None, copy=None, like=None" for f in (np.asarray, np.asanyarray)},
    np.ascontiguousarray: "a, dtype=None, *, like=None",
    **{f: "shape, dtype=None, order='C', *, device=None, like=None" for f in (np.zeros, np.empty)},
    np.empty_like: "prototype, dtype=None, order='K', subok=True, shape=None, *, device=None",
    np.dot: "a, b, out=None", np.vdot: "a, b, /", np.inner: "a, b, /", np.bincount: "x, /, weights=None, minlength=0",
    np.copyto: "dst, src, casting='same_kind', where=True", np.putmask: "a, /, mask, values",
    np.lexsort: "keys, axis=-1", np.unravel_index: "indices, shape, order='C'",
    np.ravel_multi_index: "multi_index, dims, mode='raise', order='C'",
    **{f: "x=0, /" for f in (np.float64, np.float32, np.int64, np.int32, np.bool_)},
}
MEANS_NOTHING: dict[str, tuple[Any, ...]] = {
    "device": (None, "cpu"), "subok": (True, False), "order": (None, "C", "K", "A"), "where": (True,),
    "copy": (None,), "optimize": (True, False, "greedy", "optimal"), "overwrite_input": (True, False),
}


def _read(text: str) -> inspect.Signature:
    """The signature for a parameter list as in a `def`."""
    scope: dict[str, Any] = {"NO": NO}
    exec(f"def function({text}): pass", scope)
    return inspect.signature(scope["function"])


def _of_ufunc(fun: np.ufunc) -> inspect.Signature:
    inputs = "x" if fun.nin == 1 else ", ".join(f"x{i + 1}" for i in range(fun.nin))
    if fun.nout == 1:
        before = f"{inputs}, /, out=None, *, "
    else:
        before = f"{inputs}, {', '.join(f'out{i + 1}=None' for i in range(fun.nout))}, /, *, out=None, "
    return _read(f"{before}{'where=True, ' if fun.signature is None else _CORE}{_OPTIONS}")


def signature_of(fun: Any) -> inspect.Signature | None:
    """NumPy's signature of a function, or None if it is unknown."""
    if isinstance(fun, np.ufunc):
        return _of_ufunc(fun)
    if isinstance(getattr(fun, "__self__", None), np.ufunc):
        return _read(_OF_UFUNC[fun.__name__].format(options=_OPTIONS))
    if fun in _TEXTS:
        return _read(_TEXTS[fun])
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


# --- calls of rules -------------------------------------------------------------------------------

@dataclass(frozen=True)
class Call:
    """The way in which the arguments of a function are passed to its rule.

    ``names``: the function's parameters that the rule takes; True for those passed by position.
    ``least``: the minimum number of positional arguments.
    ``plain``: the maximum number of positional arguments that are passed to the rule unchanged.
    """

    signature: inspect.Signature
    names: dict[str, bool]
    least: int
    plain: int


_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def call_of(signature: inspect.Signature, rule: Callable[..., Any], skipped: int) -> Call:
    """The ``Call`` of a rule; ``skipped`` is the number of leading parameters that are its own, such as its context."""
    own = list(inspect.signature(rule).parameters.values())[skipped:]
    theirs = list(signature.parameters.values())
    names, plain = {}, True
    count = least = 0
    ahead = any(p.kind is Parameter.VAR_POSITIONAL for p in theirs)
    for i, p in enumerate(theirs):
        mine = next((x for x in own if x.name == p.name), None)
        here = own[min(i, len(own) - 1)].kind is Parameter.VAR_POSITIONAL or i < len(own) and own[i].kind in _BY_PLACE
        by_place = here and (p.kind is Parameter.POSITIONAL_ONLY or i == 0 or ahead and own[i] is mine)
        ahead = ahead and p.kind is not Parameter.VAR_POSITIONAL
        if p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            if any(x.kind is p.kind for x in own):
                names[p.name] = p.kind is Parameter.VAR_POSITIONAL
            plain = False
        elif by_place or mine is not None:
            names[p.name] = by_place
        least += p.default is Parameter.empty and p.kind in _BY_PLACE
        plain = plain and p.name not in OUTS and here and (by_place or own[i] is mine)
        plain = plain and p.kind in _BY_PLACE
        count += plain
    return Call(signature, names, least, count)


@functools.cache
def of_function(fun: Any, rule: Callable[..., Any], skipped: int) -> Call | None:
    """The ``Call`` of ``rule`` for ``fun``; None if ``fun`` is not NumPy's or has no known signature."""
    if not is_numpys(fun) or (signature := signature_of(fun)) is None:
        return None
    return call_of(signature, rule, skipped)


@functools.cache
def of_method(name: str, rule: Callable[..., Any], skipped: int) -> Call | None:
    """The ``Call`` of ``rule`` for an array method; None if the method is not in ``METHODS``."""
    return call_of(_read(METHODS[name]), rule, skipped) if name in METHODS else None


def is_numpys(fun: Any) -> bool:
    module = getattr(fun, "__module__", None) or type(getattr(fun, "__self__", None)).__module__
    return isinstance(fun, np.ufunc) or module.split(".")[0] == "numpy"


# --- binding --------------------------------------------------------------------------------------

class Refused(Exception):
    """An argument that the rule has no parameter for; holds its name."""


def bind(call: Call, name: str, args: Sequence[Any], kwargs: dict[str, Any],
         ) -> tuple[list[Any], dict[str, Any], tuple[Any, ...]]:
    """The positional and named arguments of the rule, and the arrays given as ``out``; raises ``TypeError``."""
    if not kwargs and call.least <= len(args) <= call.plain:
        return [a for a in args], {}, ()
    try:
        bound = call.signature.bind(*args, **kwargs)
    except TypeError as e:
        raise TypeError(f"{name}(): {e}") from None
    place: list[Any] = []
    named: dict[str, Any] = {}
    outs: list[tuple[str, Any]] = []
    for key, value in bound.arguments.items():
        p = call.signature.parameters[key]
        if key in OUTS:
            if value is not None:
                outs.append((key, value))
        elif p.kind is Parameter.VAR_KEYWORD:
            _add_keywords(call, key, value, named)
        elif value is NO:
            continue
        elif key not in call.names:
            if not _is_idle(key, value, p.default):
                raise Refused(key)
        elif not call.names[key]:
            named[key] = value
        elif p.kind is Parameter.VAR_POSITIONAL:
            place.extend(value)
        else:
            place.append(value)
    return place, named, _targets(call, name, outs)


def _add_keywords(call: Call, key: str, given: dict[str, Any], named: dict[str, Any]) -> None:
    for k, v in given.items():
        if key in call.names:
            named[k] = v
        elif not _is_idle(k, v, NO):
            raise Refused(k)


def _is_idle(key: str, value: Any, default: Any) -> bool:
    """True if an argument is the default or has no effect in compiled code."""
    if isinstance(value, (str, int, float, type, type(None))):
        return value is default or type(value) is type(default) and value == default or (
            any(value is v or type(value) is type(v) is str and value == v for v in MEANS_NOTHING.get(key, ())))
    return False


def _targets(call: Call, name: str, outs: Sequence[tuple[str, Any]]) -> tuple[Any, ...]:
    """The ``out`` array, or None, for each result; an empty tuple if no ``out`` is given."""
    if not outs:
        return ()
    places = [k for k in call.signature.parameters if k in OUTS[1:]]
    if not places:
        (_, out), = outs
        return out if isinstance(out, tuple) and len(out) == 1 else (out,)
    if outs[-1][0] != "out":
        given = dict(outs)
        return tuple([given.get(k) for k in places])
    if len(outs) > 1:
        raise TypeError(f"{name}(): cannot specify 'out' as both a positional and keyword argument")
    if not isinstance(outs[0][1], tuple) or len(outs[0][1]) != len(places):
        raise TypeError(f"{name}(): 'out' must be a tuple of arrays, one for each of {len(places)} results")
    return outs[0][1] if any(v is not None for v in outs[0][1]) else ()
