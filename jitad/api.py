"""``jit``, and the object that it returns.

That object is called at the speed of a C function (``lowering.callable``); everything else about it, which is looked
at rarely, is Python and stands here.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from .dispatch import Dispatcher, name_of
from .errors import DeviceError, UnsupportedError
from .frontend import transforms
from .frontend.values import Options
from .lowering.callable import Jit
from .signature import Signature

Grad = bool | int | str | tuple[int | str, ...]


def jit(fun: Callable[..., Any] | None = None, /, *, grad: Grad = False, target: str = "cpu",
        static: str | int | tuple[str | int, ...] = (), fastmath: bool = False, boundscheck: bool = True,
        parallel: bool = False, static_shapes: bool = False, checkpoint: Any = None, cache: bool = False) -> Any:
    """Compile a Python function when it is called, once for each combination of argument types.

    Usable bare, with options, or as a call.  ``grad`` names what to differentiate with respect to (``True``: the
    first argument; a position; a name; a tuple) and adds ``.grad(…)`` and ``.value_and_grad(…)``.  ``static`` names
    arguments that are compile-time constants.  ``fastmath`` lets floating-point arithmetic be reordered,
    ``boundscheck=False`` leaves out tests of indices, ``static_shapes`` compiles the sizes of arrays in.
    """
    _refuse_unbuilt(target, parallel=parallel, checkpoint=checkpoint, cache=cache)
    options = Options(boundscheck=boundscheck, static_shapes=static_shapes, fastmath=fastmath)
    names = (static,) if isinstance(static, (str, int)) else tuple(static)
    if fun is None:
        return lambda f: _jit(f, grad, options, names)
    return _jit(fun, grad, options, names)


def _refuse_unbuilt(target: str, **later: Any) -> None:
    """Options that mean something in a later version are refused, not ignored."""
    if target == "cuda":
        raise DeviceError("jit(target='cuda') is not there yet",
                          hint="inspect('ptx') shows the code for a GPU without one")
    if target != "cpu":
        raise ValueError(f"no target {target!r}: there are 'cpu' and 'cuda'")
    for name, value in later.items():
        if value:
            raise UnsupportedError(f"jit({name}={value!r}) is not there yet")


def _jit(fun: Any, grad: Grad, options: Options, static: tuple[str | int, ...]) -> Any:
    if isinstance(fun, (staticmethod, classmethod)):
        return type(fun)(_jit(fun.__func__, grad, options, static))
    if not callable(fun):
        raise TypeError(f"jit takes a function, not {fun!r}")
    fun = getattr(fun, "py_func", fun)
    made = _wrap(fun, fun, options, static)
    if grad is not False:
        argnums = 0 if grad is True else grad
        for name in ("grad", "value_and_grad"):
            derived = getattr(transforms, name).make(fun, argnums)
            setattr(made, name, _derivative(made, name, derived, options, static))
    return made


def _wrap(fun: Any, described_by: Any, options: Options, static: tuple[str | int, ...]) -> Any:
    made = Dispatcher(fun, options, static, described_by).target
    made.__name__ = made.__qualname__ = name_of(fun)
    functools.update_wrapper(made, described_by)
    return made


def _derivative(owner: Any, name: str, fun: Any, options: Options, static: tuple[str | int, ...]) -> Any:
    """The same kind of object for a derivative; it can be found again as ``owner.name``."""
    made = _wrap(fun, owner.py_func, options, static)
    made.__name__, made.__qualname__ = name, f"{owner.__qualname__}.{name}"
    made.__doc__ = f"The {'value and the ' if name != 'grad' else ''}gradient of {owner.__name__}."
    return made


# --- what the object has besides being called -----------------------------------------------------

def _dispatcher(self: Any) -> Dispatcher:
    found: Dispatcher = self._self
    return found


def _inspect(self: Any, stage: str = "ir", *args: Any, **kwargs: Any) -> str:
    """The text of a stage: ``ir``, ``cps``, ``adjoint``, ``optimized``, ``llvm``, ``asm`` or ``ptx``.

    For these arguments (``jitad.spec`` stands for one that is not at hand), or else for the last call's.
    """
    from . import compiler                           # as in dispatch: not before something is compiled
    return compiler.stage_text(self.py_func, signature_for(self, args, kwargs), options_of(self), stage)


def options_of(self: Any) -> Options:
    """What the jitted function was told."""
    return _dispatcher(self).options


def signature_for(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
    """The signature of these arguments, or without any the last call's."""
    dispatcher = _dispatcher(self)
    if args or kwargs or not dispatcher.facts()[0]:
        return dispatcher.signature(args, kwargs)[0]
    last = dispatcher.last
    if last is None:
        raise ValueError(f"{self.__name__} has not been called yet: pass arguments, or jitad.spec(…) for each")
    return last


def _signatures(self: Any) -> list[str]:
    """The types of arguments that there is code for."""
    return [f"({sig})" for sig in _dispatcher(self).table]


def _stats(self: Any) -> dict[str, Any]:
    """How often something was compiled, and the seconds each part of that took."""
    d = _dispatcher(self)
    return {"compilations": d.compilations, "seconds": sum(d.seconds.values()), "parts": dict(d.seconds)}


def _recompile(self: Any) -> None:
    """Forget what is compiled, of the derivatives too; the next call compiles anew."""
    _dispatcher(self).forget()
    for name in ("grad", "value_and_grad"):
        if name in self.__dict__:
            _dispatcher(self.__dict__[name]).forget()


def _visualize(self: Any, *args: Any, stage: str = "ir", **kwargs: Any) -> str:
    """The control-flow graph of a stage in Graphviz's language."""
    from .visualize import graph
    from . import compiler
    signature = signature_for(self, args, kwargs)
    return graph(compiler.stage_module(self.py_func, signature, options_of(self), stage))


def _missing(self: Any, name: str) -> Any:
    if name in ("grad", "value_and_grad"):
        raise AttributeError(f"{self.__name__} has no gradient: write @jit(grad=True), or jitad.{name}(f)")
    raise AttributeError(f"{self.__name__} has no attribute {name!r}")


def _reduce(self: Any) -> str:
    """Pickled by reference, as functions are."""
    name: str = self.__qualname__
    return name


class _Bound:
    """A jitted method of an object: called with the object first, its derivatives too."""

    def __init__(self, jitted: Any, obj: Any) -> None:
        self.__func__, self.__self__ = jitted, obj

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__func__, name)
        return types.MethodType(found, self.__self__) if name in ("grad", "value_and_grad", "inspect") else found

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


def _get(self: Any, obj: Any, owner: type | None = None) -> Any:
    return self if obj is None else _Bound(self, obj)


def _dress() -> None:
    """Give the type its attributes; none of them is on the way of a call."""
    Jit.is_jitad = True
    Jit.py_func = property(lambda self: _dispatcher(self).fun, doc="The function as written.")
    Jit.inspect, Jit.recompile, Jit.visualize = _inspect, _recompile, _visualize
    Jit.signatures, Jit.stats = property(_signatures), property(_stats)
    Jit.__getattr__, Jit.__reduce__, Jit.__get__ = _missing, _reduce, _get
    Jit.__repr__ = lambda self: f"<jitad function {self.__qualname__}>"
    Jit.__module__ = "jitad"


_dress()
transforms.register(jit)

