"""Calls of any callable that the user may have.

A Python function is traced once for each *specialisation*: its code, the static values, the types of the run-time
values, and which arguments are the same object.  Its changes to objects that the caller can see are returned as
additional results, and an argument that it returns is returned as that object.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import PACKAGE, JitadError, Loc, UnsupportedError
from ..arrays import library, signatures, table, views
from ..callables import traceable
from ..captured.user_classes import in_stdlib, is_user_class
from ..columns.recursive_types import Family
from ..flow import raising
from ..objects import attributes, containers, growing_lists, list_changes, refusals, special_methods
from ..objects.list_rows import Row
from ..objects.long_lists import LongList
from ..operations import argument_errors, builtin, stdlib
from ..transforms import rule_calls
from ..trees import boxed_closures
from ..trees.fields import Virtual
from ..trees.references import Reference
from ..values import other_libraries, purity
from ..values.closures import BoundMethod, Fn, Method, Partial
from ..values.lattice import is_number
from ..values.protocol import FunctionRef, Trace
from ..values.values import ArrayRef, Choice, DictObj, Instance, ListObj, Store, Sym
from . import specialise

__all__ = ["Calls", "callable_of"]


class Calls(Trace):
    """The part of ``Trace`` for calls."""

    heaps: dict[Family, Store]

    def call(self, fun: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.call_at(self.builder.loc, fun, args, kwargs)

    def call_at(self, loc: Loc, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls ``fun`` from this location in the user's source."""
        self.builder.loc = loc
        if type(fun) is Choice:
            return self.over(fun, lambda f: self.call_at(loc, f, args, kwargs))
        known = _KINDS.get(type(fun))
        if known is not None:
            return known(self, fun, list(args), kwargs)
        if isinstance(fun, Reference) and fun.family.functions:
            return boxed_closures.call(self, fun, args, kwargs)
        if isinstance(fun, Instance):
            if not builtin.TABLE[callable](self, fun):
                raise TypeError(f"'{fun.cls.__name__}' object is not callable")
            return self.call_at(loc, self.getattr(fun, "__call__"), args, kwargs)
        if isinstance(fun, (Sym, ArrayRef)) or fun is None:
            raise TypeError(f"'{builtin.type_name(self, fun)}' object is not callable")
        return _call_static(self, fun, list(args), kwargs)

    def call_traced(self, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> FunctionRef:
        """Traces ``fun`` as an IR function for these arguments, without calling it (see ``FunctionRef``)."""
        fn, args = callable_of(self, fun, list(args))
        loc = self.builder.loc
        heaps = self.heaps
        self.heaps = {}                              # it is a program of its own with its own heaps
        try:
            return specialise.reference(self, fn, fn.code.bind(self, fn, args, kwargs), args)
        except Exception as e:
            _note_call(e, fn, loc)
            raise
        finally:
            self.heaps = heaps

    def call_with_rule(self, custom: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function with a derivative rule (``custom.Custom``)."""
        self.own_rules(custom)
        return rule_calls.run(self, custom, _by_position(self, custom.fun, args, kwargs))


def callable_of(t: Trace, fun: Any, args: list[Any]) -> tuple[Fn, list[Any]]:
    """The traceable function of a callable, and its arguments including ``self``."""
    if isinstance(fun, Fn):
        return fun, args
    if isinstance(fun, types.FunctionType):
        return builtin.fn_of(fun, t), args
    if isinstance(fun, (BoundMethod, types.MethodType)):
        inner, self_ = fun.parts() if isinstance(fun, BoundMethod) else (fun.__func__, t.lift(fun.__self__))
        return callable_of(t, inner, [self_, *args])
    if getattr(type(fun), "is_jitad", False):
        _note_jitted(t, fun)
        return callable_of(t, fun.py_func, args)
    return builtin.forwarder(fun), [fun, *args]


def _note_jitted(t: Trace, fun: Any) -> None:
    """Remember that a function is compiled for itself, so that it may be compiled separately."""
    if isinstance(fun.py_func, types.FunctionType):
        t.session.jitted[builtin.fn_of(fun.py_func, t).code] = fun


def _by_position(t: Trace, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the parameters, with defaults filled in."""
    if not kwargs and not isinstance(fun, (Fn, types.FunctionType)):
        return list(args)
    fn, given = callable_of(t, fun, list(args))
    names, bound = fn.code.args, fn.code.bind(t, fn, given, kwargs)
    if names.kwonlyargs or names.kwarg:
        t.unsupported(f"`{fn.code.name}`, which has a derivative of its own, takes arguments by keyword only",
                      "make them arguments by position")
    rest = bound.pop(names.vararg.arg, ()) if names.vararg else ()
    return [*bound.values(), *rest][len(given) - len(args):]


# --- calls by kind of callable ----------------------------------------------------------------------

def _call_fn(t: Trace, fn: Fn, args: list[Any], kwargs: dict[str, Any]) -> Any:
    loc = t.builder.loc
    args = [special_methods.handed_over(t, a) for a in args]
    kwargs = {k: special_methods.handed_over(t, a) for k, a in kwargs.items()}
    try:
        result = specialise.call(t, fn, fn.code.bind(t, fn, args, kwargs))
    except JitadError as e:
        if e.loc is None or not e.loc.file.startswith(PACKAGE):
            _note_call(e, fn, loc)
            raise
        raise type(e)(e.message, loc, e.hint) from e           # written in Python, but not by the user
    except Exception as e:
        _note_call(e, fn, loc)
        raise
    t.builder.loc = loc
    return result


def _note_call(e: Exception, fn: Fn, loc: Loc) -> None:
    """Adds the user's call of ``fn`` to an error that was raised inside it."""
    if not loc.line or loc.file.startswith(PACKAGE) or loc == fn.code.loc:      # the last: a call around the program
        return
    if isinstance(e, JitadError):
        e.called_at(loc)
    elif getattr(e, "__notes__", None):
        e.add_note(f"called from {loc.shown().lstrip()}")


def _call_function(t: Trace, fun: types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rule = builtin.find(fun)
    if rule is not None:
        return _call_builtin(t, fun, rule, args, kwargs)
    if traceable.is_compile(fun):
        return t.native(traceable.compile_in_traced_code, t, *args, **kwargs)
    rule = table.find(t, fun)
    if rule is not None:
        return _call_rule(t, fun, rule, args, kwargs)
    if args and hasattr(fun, "registry") and isinstance(getattr(fun, "dispatch", None), types.FunctionType):
        return _call_by_class(t, fun, args, kwargs)
    _refuse_foreign(t, fun)
    _refuse_fickle(t, fun)
    package = str(fun.__module__).partition(".")[0]
    if package == "scipy" or in_stdlib(package):
        return _call_library(t, fun, args, kwargs)
    return _call_fn(t, builtin.fn_of(fun, t), args, kwargs)


def _call_by_class(t: Trace, fun: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls the implementation of a ``functools.singledispatch`` function for the class of the first argument."""
    if type(args[0]) is Choice:
        return t.over(args[0], lambda v: _call_by_class(t, fun, [v, *args[1:]], kwargs))
    return t.call(fun.dispatch(builtin.TABLE[type](t, args[0])), *args, **kwargs)


def _call_library(t: Trace, fun: types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a function of the standard library or of SciPy; errors inside it are reported at the user's call."""
    loc = t.loc
    try:
        return _call_fn(t, builtin.fn_of(fun, t), args, kwargs)
    except UnsupportedError:
        raise UnsupportedError(f"`{fun.__module__}.{fun.__qualname__}` is not supported: it is written for the "
                               "interpreter", loc, refusals.ELSE) from None


def _call_builtin(t: Trace, fun: Any, rule: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a builtin of ``builtin.TABLE``; a union argument is settled first, unless the builtin accepts unions."""
    if fun not in builtin.WALKING:
        args, kwargs = _settled_lists(t, args, kwargs)
    c = next((a for a in (*args, *kwargs.values()) if type(a) is Choice), None) if fun not in builtin.KEEPS else None
    if c is None:
        return argument_errors.called(t, fun, rule, functools.partial(t.native, rule, t), args, kwargs)
    return t.over(c, lambda v: t.call(fun, *map(t.settle, args), **{k: t.settle(a) for k, a in kwargs.items()}))


def _settled_lists(t: Trace, args: list[Any], kwargs: dict[str, Any],
                   kept: bool = True) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a function that does not change a list: those of run-time length are immutable.

    ``kept``: it may keep what is in a list.
    """
    named = {k: growing_lists.settled(t, a, kept) for k, a in kwargs.items()}
    return [growing_lists.settled(t, a, kept) for a in args], named


def _call_bound(t: Trace, m: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    fun, obj = m.parts() if isinstance(m, BoundMethod) else (m.__func__, t.lift(m.__self__))
    return t.call(fun, obj, *args, **kwargs)


def _call_partial(t: Trace, p: Partial, args: list[Any], kwargs: dict[str, Any]) -> Any:
    fun, first, named = p.parts()
    return t.call(fun, *first, *args, **{**dict(zip(p.names, named)), **kwargs})


def _call_method(t: Trace, m: Method, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a method of a traced array, list or dict."""
    obj, name = m.parts()[0], m.name
    if type(obj) is Choice:
        return t.over(obj, lambda v: t.call(t.getattr(v, name), *args, **kwargs))
    if type(obj) is DictObj and args and type(args[0]) is Choice:
        return t.over(args[0], lambda v: t.call(m, v, *args[1:], **kwargs))
    if name in attributes.TUPLE_METHODS:
        return t.native(special_methods.tuple_method, t, obj, name, args, kwargs)
    if list_changes.grows(t, obj, name, args):
        return t.native(list_changes.method, t, obj, name, args, kwargs)
    if type(obj) in containers.METHODS_OF:
        return t.native(containers.METHODS_OF[type(obj)][1], t, obj, name, args, kwargs)
    cls = np.ndarray if isinstance(obj, ArrayRef) or obj.is_array else containers.type_of(obj)
    fun, args = getattr(cls, name, name), [obj, *args]
    if name in library.ARRAY_METHODS:
        rule = library.ARRAY_METHODS[name]
        args, kwargs, _ = argument_errors.bound(t, signatures.of_method(name, rule, 0), fun, args, kwargs)
        return t.call(rule, *args, **kwargs)
    rule = table.MUTATING_METHODS.get(name) or table.METHODS[name]
    call = signatures.of_method(name, rule, 1)
    if name in table.MUTATING_METHODS:
        return _mutate(t, fun, call, rule, args, kwargs)
    args, kwargs, outs = argument_errors.bound(t, call, fun, args, kwargs)
    return argument_errors.out_of(t, outs, _run_rule(t, fun, name, rule, args, kwargs), fun)


def _mutate(t: Trace, fun: Any, call: Any, rule: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    (ref, *args), kwargs, _ = argument_errors.bound(t, call, fun, args, kwargs)
    if not isinstance(ref, ArrayRef):
        t.unsupported(f"writes into {containers.describe(ref)}", "write into an array")
    plain = [containers.plain(t, a) for a in args]
    named = {k: containers.plain(t, v) for k, v in kwargs.items()}
    views.store_all(t, ref, t.native(rule, t, t.read(ref), *plain, **named))


def _call_rule(t: Trace, fun: Any, rule: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a function with a rule in ``arrays.table``; Python computes it if the arguments are known."""
    args, kwargs = _settled_lists(t, args, kwargs, kept=False)
    c = t.first_choice((*args, *kwargs.values()))
    if c is not None:
        return t.over(c, lambda v: _call_settled(t, fun, rule, args, kwargs))
    if (args and all(map(_is_plain, args)) and all(map(containers.is_static, kwargs.values()))
            and _is_scalar_function(fun)):
        return t.native(_quiet, fun, *args, **kwargs)
    args, kwargs, outs = argument_errors.bound(t, signatures.of_function(fun, rule, 1), fun, args, kwargs)
    return argument_errors.out_of(t, outs, _run_rule(t, fun, fun, rule, args, kwargs), fun)


def _call_settled(t: Trace, fun: Any, rule: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a rule for the settled variants: a variant such as None is an error on this path only."""
    left = [t.settle(a) for a in args]
    if any(a is None or isinstance(a, (str, Fn)) for a in left):
        t.python_refuses(fun, *left)
        raise TypeError(f"{argument_errors.name_of(fun)} of {' and '.join(map(containers.describe, left))}")
    return _call_rule(t, fun, rule, left, {k: t.settle(v) for k, v in kwargs.items()})


def _run_rule(t: Trace, fun: Any, key: Any, rule: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Runs a rule; ``key``: the key of ``fun`` in ``table.VIEWS``."""
    def run(*args: Any, **kwargs: Any) -> Any:
        if key in table.VIEWS and args and isinstance(args[0], ArrayRef):
            return views.view(t, args[0], rule, key, args[1:], kwargs)
        return t.apply_rule(rule, *args, **kwargs)
    return argument_errors.called(t, fun, rule, run, args, kwargs)


def _is_plain(v: Any) -> bool:
    return is_number(v) or isinstance(v, (str, bytes))


def _is_scalar_function(fun: Any) -> bool:
    return isinstance(fun, (np.ufunc, type)) or getattr(fun, "__module__", "") in ("math", "builtins")


def _quiet(fun: Any, /, *args: Any, **kwargs: Any) -> Any:
    with np.errstate(all="ignore"):
        return fun(*args, **kwargs)


def _call_static(t: Trace, fun: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a callable that is not a function of the user: a builtin, a class, a NumPy function, a transform."""
    if fun is bool and len(args) == 1 and isinstance(args[0], (Instance, ListObj, DictObj, LongList, Row)):
        return t.truth(args[0])
    if args and builtin.hashable(fun) and fun in special_methods.ASKING:
        found = special_methods.ask(t, fun, args, kwargs)
        if found is not special_methods.MISSING:
            return found
    special = builtin.find(fun)
    if special is not None:
        return _call_builtin(t, fun, special, args, kwargs)
    if getattr(type(fun), "is_jitad", False):
        _note_jitted(t, fun)
        return t.call(fun.py_func, *args, **kwargs)
    if hasattr(type(fun), "traced_call"):
        return fun.traced_call(t, tuple(args), kwargs)
    _refuse_foreign(t, fun)
    if builtin.hashable(fun) and fun in table.MUTATING:
        changed = table.MUTATING[fun]
        return _mutate(t, fun, signatures.of_function(fun, changed, 1), changed, args, kwargs)
    if isinstance(fun, type) and issubclass(fun, BaseException):
        return raising.make(t, fun, args, kwargs)
    rule = table.find(t, fun)
    if rule is not None:
        return _call_rule(t, fun, rule, args, kwargs)
    if isinstance(fun, functools.partial):
        held, named = t.partial_parts(fun)
        return t.call(fun.func, *held, *args, **{**named, **kwargs})
    if is_user_class(fun):
        return attributes.construct(t, fun, args, kwargs)
    if isinstance(origin := typing.get_origin(fun), type):             # list[int], Stack[float]
        return t.call(origin, *args, **kwargs)
    if type(fun) in stdlib.CALLABLE:
        return t.native(stdlib.CALLABLE[type(fun)], t, fun, *args, **kwargs)
    if isinstance(fun, functools._lru_cache_wrapper):
        return stdlib.cached(t, fun, args, kwargs)
    if isinstance(fun, enum.EnumType) and all(map(containers.is_static, args)):
        return t.native(fun, *args, **kwargs)
    if isinstance(inspect.getattr_static(type(fun), "__call__", None), types.FunctionType):
        return t.call(type(fun).__call__, t.lift(fun), *args, **kwargs)
    _refuse_fickle(t, fun)
    if isinstance(fun, attributes.UNBOUND_METHOD) and fun.__name__ in attributes.CHANGES and containers.is_static(args):
        attributes.refuse_change(t, args[0], fun.__name__)
    return _call_now(t, fun, args, kwargs)


def _call_now(t: Trace, fun: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a callable without Python source while tracing: the call runs once, on any path."""
    if not purity.is_pure(fun):
        t.unsupported(*purity.refusal(fun, argument_errors.name_of(fun)))
    of_text = isinstance(getattr(fun, "__self__", None), (str, bytes, re.Pattern, re.Match))
    if of_text and fun.__name__ == "join" and len(args) == 1:
        args = [tuple(t.iterate(args[0]))]                     # a list, a map or a generator of known strings
    args, kwargs = [t.as_constant(v) for v in args], {k: t.as_constant(v) for k, v in kwargs.items()}
    for used in filter(purity.is_iterator, (*args, *kwargs.values())):
        t.iterate(used)                                        # raises an error
    if all(map(containers.is_static, args)) and all(map(containers.is_static, kwargs.values())):
        result = t.native(fun, *args, **kwargs)
        return t.opened(result) if of_text else t.lift(result)       # the result of a string method is not shared
    name = getattr(fun, "__qualname__", None) or repr(fun)
    raise UnsupportedError(f"`{name}` cannot be called with values that are only known at run time", t.loc,
                           refusals.hint(fun))


def _refuse_foreign(t: Trace, fun: Any) -> None:
    """Refuses a function of another Python compiler, and names its equivalent here."""
    if other_libraries.library(fun) is not None:
        t.unsupported(*other_libraries.refusal(fun, argument_errors.name_of(fun)))


def _refuse_fickle(t: Trace, fun: Any) -> None:
    """Refuses a function whose result depends on more than its arguments: clocks, random numbers, the system."""
    owner = getattr(fun, "__self__", None)
    for module in (getattr(fun, "__module__", None), getattr(owner, "__name__", None), type(owner).__module__):
        package = str(module).partition(".")[0]
        if package.lstrip("_") in FICKLE and in_stdlib(package):
            t.unsupported(f"`{getattr(fun, '__qualname__', fun)}` gives something else at each call, and compiled code "
                          "would keep what it gives now",
                          table.DRAW if "random" in str(module) else "call it outside and pass the result")


FICKLE = frozenset(("time", "random", "os", "posix", "io", "secrets", "datetime", "uuid", "socket", "threading",
                    "thread"))
_KINDS: dict[type, Callable[[Any, Any, list[Any], dict[str, Any]], Any]] = {
    Fn: _call_fn, types.FunctionType: _call_function, BoundMethod: _call_bound, types.MethodType: _call_bound,
    Method: _call_method, Partial: _call_partial, Virtual: lambda t, m, args, kwargs: m.traced_call(t, args, kwargs),
}
