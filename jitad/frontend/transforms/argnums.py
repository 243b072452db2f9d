"""Resolution of ``argnums``: arguments by position, by name, or left to their default."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from ...errors import DifferentiationError, Loc
from ..callables.traceable import positional, signature_of
from ..values.closures import BoundMethod, Fn, Partial
from ..values.lattice import UNBOUND
from ..values.protocol import Trace
from ..values.values import Instance


def parameter_names(fun: Any) -> list[str]:
    """The names of the positional parameters of any callable; empty if they are not known."""
    if isinstance(fun, Fn):
        return [a.arg for a in (*fun.code.args.posonlyargs, *fun.code.args.args)]
    if isinstance(fun, BoundMethod):
        return parameter_names(fun.parts()[0])[1:]
    if isinstance(fun, Partial):
        return parameter_names(fun.parts()[0])[len(fun.parts()[1]):]
    inner = getattr(fun, "fun", None)
    if inner is not None and hasattr(type(fun), "traced_call"):
        return parameter_names(inner)
    try:
        return positional(fun)
    except (TypeError, ValueError):          # pullbacks, and built-in functions without a known signature
        return []


def places(t: Trace, fun: Any, keys: Sequence[int | str], args: Sequence[Any], kwargs: dict[str, Any],
           what: str, loc: Loc) -> list[int | str]:
    """A position in ``args`` or a name in ``kwargs`` for each of ``argnums``.

    An argument that is left to its default is added to ``kwargs``.
    """
    if not keys:
        raise DifferentiationError(f"{what}: argnums names no argument", loc)
    found = [_place(t, fun, key, args, kwargs, what, loc) for key in keys]
    if len(set(found)) != len(found):
        raise DifferentiationError(f"{what}: argnums names an argument twice", loc)
    for v in (args[p] if isinstance(p, int) else kwargs[p] for p in found):
        if isinstance(v, Instance) and not dataclasses.is_dataclass(v.cls):
            raise DifferentiationError(
                f"{what}: differentiates with respect to an object of class {v.cls.__name__}, which is no dataclass",
                loc, "name another argument, of a method `jit(grad=1)`; or make the class a dataclass")
    return found


def _place(t: Trace, fun: Any, key: Any, args: Sequence[Any], kwargs: dict[str, Any], what: str, loc: Loc) -> int | str:
    if isinstance(key, str) and key in kwargs:
        return key
    if isinstance(key, int) and -len(args) <= key < len(args):
        return key % len(args)
    names = parameter_names(fun)
    name = names[key] if isinstance(key, int) and 0 <= key < len(names) else key
    if name in kwargs:
        return str(name)
    if name in names and names.index(name) < len(args):
        return names.index(name)
    default = default_of(fun, name) if isinstance(name, str) else UNBOUND
    if default is not UNBOUND:
        kwargs[name] = t.lift(default)
        return str(name)
    wanted = f"named {key!r}" if isinstance(key, str) else f"number {key}"
    raise DifferentiationError(f"{what}: the call has no argument {wanted}", loc,
                               f"one of {', '.join(names)}, or its position, counted from 0" if names else "")


def default_of(fun: Any, name: str) -> Any:
    """The default of a parameter; ``UNBOUND`` if it has none."""
    if isinstance(fun, Fn):
        positional = [a.arg for a in fun.code.args.args]
        defaults = dict(zip(reversed(positional), reversed(fun.defaults)))
        return {**defaults, **fun.kw_defaults}.get(name, UNBOUND)
    if isinstance(fun, (BoundMethod, Partial)):
        inner = fun.parts()[0]
        given = dict(zip(fun.names, fun.parts()[2])) if isinstance(fun, Partial) else {}
        return given[name] if name in given else default_of(inner, name)
    if hasattr(type(fun), "traced_call") and getattr(fun, "fun", None) is not None:
        return default_of(fun.fun, name)
    if isinstance(fun, functools.partial) and name in fun.keywords:
        return fun.keywords[name]
    try:
        found = signature_of(fun).parameters.get(name)
    except (TypeError, ValueError):
        return UNBOUND
    if found is None or found.default is found.empty or found.kind is found.POSITIONAL_ONLY:
        return UNBOUND
    return found.default
