"""Callables that are traced in traced code, and compiled if called elsewhere: the base of transforms.

A transform is an object that holds its function.  Outside traced code, equal transforms of one function share one
jitted function, however often they are made.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from ...errors import DifferentiationError
from ..captured.user_classes import openable
from ..objects import containers
from ..values.closures import BoundMethod
from ..values.other_libraries import unknown_option
from ..values.protocol import Trace
from ..values.values import Sym, tracing
from . import compile_cache

_compile: Callable[..., Any] | None = None                 # ``api.jit``, once it is imported
_bind: Callable[[Any, Any], Any] | None = None             # ``jitted.bound_to``
_reduce: Callable[[Any], Any] | None = None                # ``jitted.reduced``


def register(compile: Callable[..., Any], bind: Callable[[Any, Any], Any], reduce: Callable[[Any], Any]) -> None:
    """Sets the functions that compile a transform called outside traced code, bind it to an object, and pickle it."""
    global _compile, _bind, _reduce
    _compile, _bind, _reduce = compile, bind, reduce


class Traceable:
    """A callable that traced code calls by ``traced_call``, and other code like a function."""

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for the user values ``args``, emitted through the trace ``t``."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: Any) -> Any:
        assert _reduce is not None
        return _reduce(self)

    def _reduce_by_value(self) -> Any:
        """Its form for a pickler of ``pickling``: its class and its attributes."""
        return object.__reduce_ex__(self, 4)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


def is_compile(fun: Any) -> bool:
    """True if a function is ``jit``."""
    return fun is _compile


def compile_in_traced_code(t: Trace, fun: Any = None, /, *, grad: Any = False, **options: Any) -> Any:
    """``jit`` in traced code, where all code is compiled: returns the function, or a decorator that does."""
    for name in options.keys() - inspect.signature(_compile).parameters.keys():          # type: ignore[arg-type]
        raise unknown_option("jit", name)
    if grad is not False:
        t.unsupported("`jit(grad=…)` inside of compiled code", "`jitad.grad(f)`, `jitad.value_and_grad(f)`")
    return _as_it_is if fun is None else fun


def _as_it_is(fun: Any) -> Any:
    return fun


# --- transforms of a function ---------------------------------------------------------------------

class Transform(Traceable):
    """A function made from ``fun``; ``static`` is a hashable key of its options (``values.Composite``)."""

    name = "transform"

    def __init__(self, fun: Any, *static: Any) -> None:
        self.fun, self.options = as_written(fun)
        if not callable(self.fun) and not hasattr(self.fun, "static"):
            raise TypeError(f"{self.name} takes a function, not {fun!r}")
        self.static = static
        self.__name__ = f"{self.name}_{getattr(self.fun, '__name__', 'function')}"

    def parts(self) -> tuple[Any, ...]:
        return (self.fun,)

    def with_parts(self, parts: tuple[Any, ...]) -> Any:
        return type(self)(parts[0], *self.static)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return compiled(self)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<jitad {self.name} of {getattr(self.fun, '__qualname__', self.fun)}>"

    @property
    def __signature__(self) -> Any:
        return signature_of(self.fun)


def described(argnums: Any) -> str:
    """A description of a value given instead of positions."""
    later = " that is only known at run time: name it in `jit(static=…)`" if isinstance(argnums, Sym) else ""
    return containers.describe(argnums) + later


def signature_of(fun: Any) -> inspect.Signature:
    """The signature of a call of ``fun`` itself.

    For a decorated function, ``inspect.signature`` returns that of the inner function instead.  Raises the errors of
    ``inspect.signature``.
    """
    if isinstance(fun, types.MethodType) and isinstance(fun.__func__, types.FunctionType):
        return inspect.signature(types.MethodType(_bare(fun.__func__), fun.__self__))
    if getattr(type(fun), "is_jitad", False):
        return signature_of(fun.py_func)
    if isinstance(fun, Traceable):
        inner: Any = getattr(fun, "fun", None)                 # linear functions and makers of transforms have none
        own = inner is None or "__signature__" in vars(type(fun))
        return inspect.signature(fun) if own else signature_of(inner)      # type: ignore[arg-type]
    if isinstance(fun, types.FunctionType):
        return inspect.signature(_bare(fun))
    call = inspect.getattr_static(type(fun), "__call__", None)
    if isinstance(call, types.FunctionType) and not isinstance(fun, type):
        return signature_of(types.MethodType(call, fun))
    return inspect.signature(fun)


def positional(fun: Any) -> list[str]:
    """The names of the parameters that can be passed by position.

    For a decorated function that takes only ``*args``, these are the parameters of the inner function.  Raises the
    errors of ``inspect.signature``.
    """
    own = signature_of(fun).parameters.values()
    found = [p.name for p in own if p.kind in POSITIONAL]
    if not found and any(p.kind is p.VAR_POSITIONAL for p in own):
        found = [p.name for p in inspect.signature(fun).parameters.values() if p.kind in POSITIONAL]
    return found


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _bare(fun: types.FunctionType) -> types.FunctionType:
    """A copy of a function without its attributes."""
    bare = types.FunctionType(fun.__code__, fun.__globals__, fun.__name__, fun.__defaults__, fun.__closure__)
    bare.__kwdefaults__ = fun.__kwdefaults__
    return bare


def as_written(fun: Any) -> tuple[Any, dict[str, Any]]:
    """The Python function of a jitted function, or of a jitted method of an object, and the options of ``jit``.

    A transform, from which another one is made, has the options of its function.
    """
    if isinstance(fun, Transform):
        return fun, fun.options
    if getattr(type(fun), "is_jitad", False):
        return fun.py_func, fun.jit_options
    method = getattr(fun, "__func__", None)
    if getattr(type(method), "is_jitad", False):
        return types.MethodType(method.py_func, fun.__self__), method.jit_options        # type: ignore[union-attr]
    return fun, {}


def native(fun: Any, options: dict[str, Any] | None = None) -> Any:
    """The jitted form of a callable that traced code can call."""
    if _compile is None:
        raise DifferentiationError("the compiler has not been loaded", hint="import jitad")
    return _compile(fun, **options or {})


def compiled(transform: Transform) -> Any:
    """The jitted form of a transform; equal transforms of one function share it."""
    own = type(transform).__signature__ is None               # (primals, …): it has no parameter names
    options = {**transform.options, "static": ()} if own else transform.options
    method = method_of(transform.fun)
    fun = transform.fun if method is None else method[0]
    key = type(transform), transform.static, tuple(options.items()), method is None
    table = compile_cache.compiled_of(fun)
    if key not in table:
        table[key] = native(transform if method is None else OfMethod(transform, fun), options)
    if method is None:
        return table[key]
    known = compile_cache.of_object(method[1], fun, None)
    return known.get(key) or known.setdefault(key, bound(method[1], table[key]))


def bound(obj: Any, jitted: Any) -> Any:
    """A callable that passes an object to a jitted function as first argument."""
    assert _bind is not None
    return _bind(obj, jitted)


def method_of(fun: Any) -> tuple[types.FunctionType, Any] | None:
    """The function and the object of a method or of an object with ``__call__``.

    None if the program cannot serve all objects of the class.
    """
    if isinstance(fun, types.MethodType):
        function, obj = fun.__func__, fun.__self__
    else:
        function, obj = inspect.getattr_static(type(fun), "__call__", None), fun
    if type(function) is not types.FunctionType or not openable(type(obj)):
        return None
    return function, obj


class OfMethod(Traceable):
    """A transform of a method, as a function whose first argument is the object."""

    def __init__(self, transform: Transform, fun: Any) -> None:
        self.transform, self.fun = transform, fun
        self.__name__ = transform.__name__

    def __call__(self, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = types.MethodType(self.fun, obj)
        return self.transform.with_parts((method, *self.transform.parts()[1:]))(*args, **kwargs)

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        of_object = self.transform.with_parts((BoundMethod(self.fun, args[0]), *self.transform.parts()[1:]))
        return of_object.traced_call(t, args[1:], kwargs)

    @property
    def __signature__(self) -> Any:
        known = signature_of(self.transform)
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        return known.replace(parameters=[first, *known.parameters.values()])


# --- makers of transforms -------------------------------------------------------------------------

class Maker(Traceable):
    """``grad`` and similar functions, which make a transform in traced code and elsewhere."""

    def __init__(self, make: Callable[..., Transform]) -> None:
        functools.update_wrapper(self, make)
        self.make = make

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        check_options(self.make, kwargs)
        made = self.make(*args, **kwargs)
        return made if tracing() else compiled(made)

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        check_options(self.make, kwargs)
        settings = {k: v if k == "fun" else containers.export(t, v) for k, v in kwargs.items()}
        return self.make(*args[:1], *(containers.export(t, v) for v in args[1:]), **settings)


class Immediate(Traceable):
    """``vjp`` and similar functions, which take the function and its arguments together."""

    def __init__(self, outside: Callable[..., Any]) -> None:
        functools.update_wrapper(self, outside)
        self.outside = outside
        self.inside: Callable[..., Any] | None = None

    def traced(self, inside: Callable[..., Any]) -> Immediate:
        """Decorates the implementation for traced code."""
        self.inside = inside
        return self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        check_options(self.outside, kwargs)
        return self.outside(*args, **kwargs)

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self.inside is not None
        check_options(self.outside, kwargs)
        return self.inside(t, *args, **kwargs)


def check_options(fun: Any, kwargs: dict[str, Any]) -> None:
    """Raises an error for an unknown option, with a hint if another library has it."""
    code = fun.__code__
    for name in kwargs:
        if name not in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]:
            raise unknown_option(fun.__name__, name)
