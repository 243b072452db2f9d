"""Calls of rules: arguments that NumPy or Python takes and the rule does not, and ``out=``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import JitadError
from ..arrays import views
from ..objects import containers
from ..values.protocol import Trace
from ..values.values import ArrayRef

Rule = Callable[..., Any]


def called(t: Trace, fun: Any, rule: Rule, run: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``run(*args, **kwargs)``, which calls ``rule`` for ``fun``; arguments that it has no place for are refused."""
    try:
        return run(*args, **kwargs)
    except JitadError:
        raise
    except TypeError:
        _refuse_arguments(t, fun, rule, args, kwargs)
        raise


def _refuse_arguments(t: Trace, fun: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse or raise what is wrong, where the rule cannot be called with these arguments at all."""
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
    except ValueError:                               # a builtin that does not tell what it takes
        pass
    unknown = [k for k in kwargs if k not in takes.parameters]
    which = f"the argument `{unknown[0]}` of `{name}`" if unknown else f"{len(args)} arguments by position of `{name}`"
    t.unsupported(f"{which}", _INSTEAD.get(unknown[0] if unknown else "", "leave it out, or write a loop"))


def name_of(fun: Any) -> str:
    """A function as the user writes it: ``np.sin``, ``math.sin``, ``len``."""
    name = str(getattr(fun, "__qualname__", None) or getattr(fun, "__name__", fun))
    module = str(getattr(fun, "__module__", None) or "").split(".")[0]
    prefix = "np" if isinstance(fun, np.ufunc) or module == "numpy" else "" if module == "builtins" else module
    return f"{prefix}.{name}" if prefix and "." not in name else name


def into(t: Trace, out: Any, result: Any, name: str) -> Any:
    """``out=``: the result is written into an array that is there, which is returned."""
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not isinstance(target, ArrayRef):
        t.unsupported(f"`out` of `{name}` is {containers.describe(target)}", "an array")
    have: np.dtype = (t.read(result) if isinstance(result, ArrayRef) else t.sym(result)).scalar.np
    want: np.dtype = t.read(target).scalar.np
    if not np.can_cast(have, want, "same_kind"):
        raise TypeError(f"Cannot cast {name} output from {have!r} to {want!r} with casting rule 'same_kind'")
    t.native(views.setitem, t, target, Ellipsis, result)
    return target


_INSTEAD = {
    "where": "`np.where` around the result",
    "dtype": "`.astype` of the argument or of the result",
    "order": "leave it out: arrays are in C order",
    "casting": "`.astype`",
    "subok": "leave it out: there are no subclasses of arrays",
}
