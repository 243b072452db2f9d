"""Attributes of jitted functions, jitted methods of objects, and pickles of both.

All of this is used rarely and written in Python; the type itself is ``lowering.python.callable.Jit``.
"""

from __future__ import annotations

import copy
import functools
import types
from typing import TYPE_CHECKING, Any

from ..errors import UnsupportedError
from ..lowering.python import callable as native_callable
from ..lowering.python.callable import Jit
from .handle import Handle, dispatcher, given_to, handle_of, is_bound

if TYPE_CHECKING:
    from .dispatch import Dispatcher


def alone(jitted: Any, given: Any) -> Dispatcher:
    """The dispatcher of a jitted function for C; ``given``: what the user has passed.

    A method of an object is refused, and a function that runs on a device.
    """
    if not getattr(type(jitted), "is_jitad", False) or is_bound(jitted):
        raise UnsupportedError(f"{given!r} is a method of an object", hint="export a function that calls it")
    found = dispatcher(jitted)
    if (target := found.options.target) != "cpu":
        from ..frontend.operations.builtin import location
        name = found.written.__name__
        raise UnsupportedError(f"a C interface of {name}, which is jit(target={target!r}): C gets code of the CPU",
                               location(found.written), f"export {name}.py_func, which has no target")
    return found


def _py_func(self: Any) -> Any:
    """The Python function; for a derivative, the transform."""
    handle = handle_of(self)
    found = handle.fun if handle.derive is None else dispatcher(self).fun
    return types.MethodType(found, self._self) if is_bound(self) else found


def _jit_options(self: Any) -> dict[str, Any]:
    """The options given to ``jit``, except ``grad``."""
    handle = handle_of(self)
    return {"static": handle.static, **handle.options}


def _inspect(self: Any, /, stage: str = "ir", *args: Any, **kwargs: Any) -> str:
    """The text of a stage: ``ir``, ``cps``, ``adjoint``, ``optimized``, ``loops``, ``llvm``, ``asm`` or ``ptx``.

    ``arch`` is the GPU's architecture for ``ptx``: ``"sm_90"``.  Functions with ``target="cuda"`` also have ``plan``
    (what becomes a kernel) and ``sass`` (the GPU's own instructions, by ``ptxas``).
    ``parallel`` lists for each loop whether several threads run it, or why not.  The text is for these arguments
    (``jitad.spec`` stands for an argument without a value), or else for the last call's.
    """
    d = dispatcher(self)
    return d.text(stage, given_to(self, args) if args or kwargs or d.parameters.count == 1 else args, kwargs)


def _signatures(self: Any) -> list[str]:
    """The argument types for which there is code."""
    return [f"({sig})" for sig in dispatcher(self).table]


def _stats(self: Any) -> dict[str, Any]:
    """The number of compilations, and the seconds that each part of them took.

    ``linked``: the compiled functions whose separate code this one calls.  ``cached``: how much code came from the
    disk; ``uncached``: why code that was to be kept there is not.
    """
    d = dispatcher(self)
    linked = {name for versions in d.table.values() for compiled in versions for name in compiled.linked}
    parts = {**d.seconds, **({"separate": d.shared.seconds} if d.shared.compilations else {})}
    return {"compilations": d.compilations + d.shared.compilations, "seconds": sum(parts.values()), "parts": parts,
            "linked": sorted(linked), "cached": d.loaded, "uncached": sorted(d.unstorable)}


def _recompile(self: Any) -> None:
    """Drops the compiled code, also of the derivatives; the next call compiles again."""
    dispatcher(self).forget()
    for name in ("grad", "value_and_grad"):
        if name in self.__dict__:
            dispatcher(self.__dict__[name]).forget()


def _visualize(self: Any, /, *args: Any, stage: str = "ir", **kwargs: Any) -> str:
    """The control-flow graph of a stage in Graphviz's language."""
    d = dispatcher(self)
    return d.graph(stage, given_to(self, args) if args or kwargs or d.parameters.count == 1 else args, kwargs)


def _cfunc(self: Any, signature: Any = None) -> Any:
    """A C function, as ``ctypes`` calls it, that returns the result; NaN, or 0 for integers, stands for an error.

    ``signature``: the types of the arguments as in ``aot.export``, or C's text ``"double (int, double *, void *)"``, in
    which an ``int`` before a pointer is the size of an array, and ``void *`` is ignored.
    """
    from ..aot.functions import cfunc
    return cfunc(alone(self, self), signature)


def _address(self: Any, signature: Any = None) -> int:
    """The address of ``f.cfunc(signature)``, which stays valid until the process ends."""
    from ..aot.functions import address
    return address(alone(self, self), signature)


def _missing(self: Any, name: str) -> Any:
    if name in ("__name__", "__qualname__"):
        return "<unnamed>"
    if name in ("grad", "value_and_grad"):
        raise AttributeError(f"{self.__name__} has no gradient: write @jit(grad=True), or jitad.{name}(f)")
    raise elsewhere().unknown_method(self.__name__, name)


def elsewhere() -> Any:
    """The module that knows names of other libraries; it is imported when a name is unknown."""
    from ..frontend.values import other_libraries
    return other_libraries


# --- pickles --------------------------------------------------------------------------------------

def reduced(self: Any, protocol: Any = None) -> Any:
    """By reference if an importable module has the object under its name, else by value."""
    from ..pickling import places, travel
    if type(self) is Jit and is_bound(self) and places.place(self) is None:
        return bound_to, (travel.Value(self._self), self._function)
    return travel.reduced(self)


def _reduce_by_value(self: Any) -> Any:
    """Its form for a pickler of ``pickling``: made empty and filled later, since what it captures may lead back."""
    attributes = {name: value for name, value in vars(self).items() if name != "__jitad_compiled__"}
    if is_bound(self):
        parts: tuple[Any, ...] = self._function, self._self
    else:
        handle = handle_of(self)
        parts = handle.fun, handle.options, handle.static, handle.derive, handle.whole
    return _empty, (), (parts, attributes), None, None, _fill


def _empty() -> Any:
    return native_callable.make(_unfilled, None)


def _unfilled(*args: Any, **kwargs: Any) -> Any:
    raise TypeError("a jitted function is called while it is unpickled")


def _fill(jitted: Any, state: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    parts, attributes = state
    if len(parts) == 2:
        jitted._function, jitted._self = parts
    else:
        fun, options, static, derive, whole = parts
        jitted._function, jitted._self = Handle.__call__, Handle(fun, options, static, derive, whole, jitted)
    vars(jitted).update(attributes)


# --- methods of objects ----------------------------------------------------------------------------

def bound_to(obj: Any, shared: Any) -> Any:
    """A callable that passes ``obj`` to a jitted function as first argument.

    CPython's own code makes the call: the callable has the layout of CPython's method objects.
    """
    made = native_callable.make(shared, obj)
    functools.update_wrapper(made, shared)
    for kind in ("grad", "value_and_grad"):
        if kind in shared.__dict__:
            setattr(made, kind, bound_to(obj, shared.__dict__[kind]))
    return made


class Bound:
    """A jitted method of an object: it and its derivatives are called with the object as first argument."""

    def __init__(self, jitted: Any, obj: Any) -> None:
        self.__func__, self.__self__ = jitted, obj

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Bound) and self.__func__ is other.__func__ and self.__self__ is other.__self__)

    def __hash__(self) -> int:
        return hash((self.__func__, id(self.__self__)))

    def __copy__(self) -> Any:
        return Bound(self.__func__, self.__self__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return Bound(self.__func__, copy.deepcopy(self.__self__, memo))

    def __reduce__(self) -> Any:
        from ..pickling import places, travel
        if places.place(type(self.__self__)) is None:
            return Bound, (self.__func__, travel.Value(self.__self__))
        name = self.__func__.__name__
        named = getattr(self.__self__, name, None) == self
        return (getattr, (self.__self__, name)) if named else self._reduce_by_value()

    def _reduce_by_value(self) -> Any:
        return Bound, (self.__func__, self.__self__)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__func__, name)
        return Bound(found, self.__self__) if name in ("grad", "value_and_grad") else found

    def inspect(self, /, stage: str = "ir", *args: Any, **kwargs: Any) -> str:
        given = (self.__self__, *args) if args or kwargs or self._takes_the_object_alone() else ()
        return _inspect(self.__func__, stage, *given, **kwargs)

    def visualize(self, /, *args: Any, stage: str = "ir", **kwargs: Any) -> str:
        given = (self.__self__, *args) if args or kwargs or self._takes_the_object_alone() else ()
        return _visualize(self.__func__, *given, stage=stage, **kwargs)

    def _takes_the_object_alone(self) -> bool:
        """True if a call without arguments is complete, so that it does not stand for the last call."""
        return dispatcher(self.__func__).parameters.count == 1

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


def _get(self: Any, obj: Any, owner: type | None = None) -> Any:
    return self if obj is None else Bound(self, obj)


def _dress() -> None:
    """Gives the type its attributes; calls use none of them."""
    Jit.is_jitad = True
    Jit.py_func, Jit.jit_options = property(_py_func), property(_jit_options)
    Jit.inspect, Jit.recompile, Jit.visualize = _inspect, _recompile, _visualize
    Jit.cfunc, Jit.address = _cfunc, _address
    Jit.signatures, Jit.stats = property(_signatures), property(_stats)
    Jit.__getattr__, Jit.__get__ = _missing, _get
    Jit.__reduce__ = Jit.__reduce_ex__ = reduced
    Jit._reduce_by_value = _reduce_by_value
    Jit.__copy__ = lambda self: self
    Jit.__deepcopy__ = lambda self, memo: self
    Jit.__repr__ = lambda self: f"<jitad function {self.__qualname__}>"
    Jit.__module__ = "jitad"


_dress()

