"""Calls of rules: arguments that NumPy or Python supports and the rule does not, and ``out=``.

Calls of NumPy's functions are bound by NumPy's signatures (``signatures``), all other calls by the rule's signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import JitadError
from ..arrays import signatures, views
from ..arrays.rules import lengths, promotion
from ..arrays.signatures import Call
from ..objects import containers
from ..values.protocol import Trace
from ..values.values import ArrayRef, Sym

Rule = Callable[..., Any]
Bound = tuple[list[Any], dict[str, Any], tuple[Any, ...]]


# --- NumPy's functions ----------------------------------------------------------------------------

def bound(t: Trace, call: Call | None, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Bound:
    """The arguments for the rule of ``fun``, and the arrays given as ``out`` (see ``out_of``)."""
    if call is None:
        return list(args), kwargs, ()
    name = name_of(fun)
    try:
        found, named, outs = signatures.bind(call, name, args, kwargs)
    except signatures.Refused as e:
        t.unsupported(f"the argument `{e}` of `{name}`", _INSTEAD.get(str(e), "leave it out, or write a loop"))
    if outs and "dtype" in call.names and "dtype" not in named and name.split(".")[-1] in _IN_DTYPE_OF_OUT:
        added = t.read(found[0]) if isinstance(found[0], ArrayRef) else found[0]
        if isinstance(outs[0], ArrayRef) and isinstance(added, Sym):
            named["dtype"] = np.promote_types(t.read(outs[0]).scalar.np, added.scalar.np)
    return found, named, outs


def out_of(t: Trace, outs: tuple[Any, ...], result: Any, fun: Any) -> Any:
    """The result of ``fun``, written into the ``out`` arrays if there are any."""
    if not outs:
        return result
    if len(outs) == 1:
        return _into(t, outs[0], result, fun)
    return tuple([r if o is None else _into(t, o, r, fun) for o, r in zip(outs, result)])


def _into(t: Trace, out: Any, result: Any, fun: Any) -> Any:
    name = name_of(fun)
    if not isinstance(out, ArrayRef):
        raise TypeError(f"{name}(): `out` must be an array, not {containers.describe(out)}")
    have, want = t.read(result) if isinstance(result, ArrayRef) else t.sym(result), t.read(out)
    last, ufunc = name.split(".")[-1], isinstance(fun, np.ufunc)
    _check_cast(name, have.scalar.np, want.scalar.np, "same_kind" if ufunc else _CASTING.get(last, "unsafe"))
    t.native(_check_shape, t, name, have.value, want.value, ufunc or last in _BROADCASTS)
    t.native(views.setitem, t, out, Ellipsis, result)
    return out


def _check_cast(name: str, have: np.dtype, want: np.dtype, casting: str) -> None:
    if casting == "equal":
        if have != want:
            raise ValueError(f"{name}(): `out` must have the dtype {have}, not {want}")
    elif not (np.can_cast(want, have, "safe") if casting == "back" else
              np.can_cast(have, want, casting)):                         # type: ignore[arg-type]
        raise TypeError(f"Cannot cast {name} output from {have!r} to {want!r} with casting rule '{casting}'")


def _check_shape(t: Trace, name: str, have: Any, want: Any, broadcasts: bool) -> None:
    """Checks the shape of ``out``: the result of a ufunc may broadcast to it, other results must have its shape."""
    m, n = promotion.rank(have), promotion.rank(want)
    if m > n or m != n and not broadcasts:
        raise ValueError(f"{name}(): `out` has {n} dimensions, the result has {m}")
    for x, y in zip(lengths.sizes(t, have)[::-1], lengths.sizes(t, want)[::-1]):
        if (same := lengths.equal_sizes(t, x, y)) is not None and not (broadcasts and x.const == 1):
            t.check(same, "ValueError", f"{name}(): an axis of `out` has size {{}}, and that of the result {{}}", y, x)


# Keyed by the last part of the name.  Functions of the first group accumulate in a dtype that includes that of `out`.
_IN_DTYPE_OF_OUT = frozenset((
    "sum", "prod", "cumsum", "cumprod", "nansum", "nanprod", "nancumsum", "nancumprod", "cumulative_sum",
    "cumulative_prod", "trace", "reduce", "accumulate"))
_BROADCASTS = frozenset(("clip", "fix", "isposinf", "isneginf", "outer", "quantile", "percentile", "nanquantile",
                         "nanpercentile", "nanmedian"))
_CASTING = {                                     # "back": NumPy checks the cast from `out` to the result
    **dict.fromkeys(("clip", "fix", "isposinf", "isneginf", "concatenate", "concat", "stack", "round", "around",
                     "quantile", "percentile", "ptp", "outer", "std", "nanmean", "nanvar", "nanstd"), "same_kind"),
    **dict.fromkeys(("dot", "multi_dot"), "equal"), "einsum": "safe",
    **dict.fromkeys(("argmax", "argmin", "nanargmax", "nanargmin", "take", "compress"), "back"),
}


# --- other functions ------------------------------------------------------------------------------


def called(t: Trace, fun: Any, rule: Rule, run: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``run(*args, **kwargs)``, which calls ``rule`` for ``fun``; refuses arguments that the rule does not have."""
    try:
        return run(*args, **kwargs)
    except JitadError:
        raise
    except TypeError:
        _refuse_arguments(t, fun, rule, args, kwargs)
        raise


def _refuse_arguments(t: Trace, fun: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuses arguments, or raises Python's ``TypeError``, if the rule cannot be called with them at all."""
    takes = inspect.signature(rule)
    try:
        takes.bind(t, *args, **kwargs)
        return
    except TypeError:
        pass
    name = name_of(fun)
    try:
        inspect.signature(fun).bind(*args, **kwargs)
    except TypeError as e:
        raise TypeError(f"{name}() {e}") from None
    except ValueError:                               # a builtin without a known signature
        pass
    unknown = [k for k in kwargs if k not in takes.parameters]
    which = f"the argument `{unknown[0]}` of `{name}`" if unknown else f"{len(args)} arguments by position of `{name}`"
    t.unsupported(f"{which}", _INSTEAD.get(unknown[0] if unknown else "", "leave it out, or write a loop"))


def name_of(fun: Any) -> str:
    """The name of a function as the user writes it: ``np.sin``, ``math.sin``, ``len``."""
    if isinstance(owner := getattr(fun, "__self__", None), np.ufunc):
        return f"np.{owner.__name__}.{fun.__name__}"
    name = str(getattr(fun, "__qualname__", None) or getattr(fun, "__name__", fun))
    module = str(getattr(fun, "__module__", None) or "").split(".")[0]
    prefix = "np" if isinstance(fun, np.ufunc) or module == "numpy" else "" if module == "builtins" else module
    return f"{prefix}.{name}" if prefix and "." not in name else name


_INSTEAD = {
    "where": "`np.where` around the result",
    "dtype": "`.astype` of the argument or of the result",
    "order": "leave it out: arrays are in C order",
    "casting": "`.astype`",
    "subok": "leave it out: there are no subclasses of arrays",
    "mean": "leave it out: it is computed",
    "like": "leave it out: there are NumPy's arrays alone",
}
