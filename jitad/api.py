"""``jit``, and the object that it returns.

Calls of that object run at the speed of a C function (``lowering.python.callable``).  Its other attributes, which are
used rarely, are written in Python here.
"""

from __future__ import annotations

import copy
import functools
import os
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .big_stack import with_room
from .errors import UnsupportedError, shown
from .locks import handles as handle_lock
from .lowering.python import callable as native_callable
from .lowering.python.callable import Jit

if TYPE_CHECKING:
    from .calling.dispatch import Dispatcher

TARGETS = ("cpu", "cuda", "cuda-sim")
Grad = bool | int | str | tuple[int | str, ...]


def jit(fun: Callable[..., Any] | None = None, /, *, grad: Grad = False, target: str = "cpu",
        static: str | int | tuple[str | int, ...] = (), fastmath: bool = False, boundscheck: bool = True,
        parallel: bool = False, static_shapes: bool = False, checkpoint: Any = None, cache: bool = False,
        flush_subnormals: bool | None = None, separate: bool | None = None, **unknown: Any) -> Any:
    """Compiles a Python function when it is called, once for each combination of argument types.

    Can be used as a decorator with or without options, or called.  ``grad`` selects the arguments to differentiate with
    respect to (``True``: the first one; a position; a name; a tuple) and adds ``.grad(…)`` and ``.value_and_grad(…)``.
    ``target``: ``"cuda"`` runs the function on a GPU of NVIDIA, and ``"cuda-sim"`` runs the same kernels on the CPU;
    their results are arrays on the device.
    ``static`` names arguments that are compile-time constants.  ``fastmath`` allows floating-point arithmetic to be
    reordered, and terms to cancel as on paper; it assumes that there are no NaNs or infinities.  ``boundscheck=False``
    omits the checks of indices; ``static_shapes`` compiles the sizes of arrays in.  ``parallel`` runs loops whose
    iterations are independent on several threads.  ``checkpoint``: with ``True`` or ``"sqrt"``, the gradient of a loop
    of n iterations saves about √n of its states; with a number c, ``"binomial"`` or ``("binomial", c)`` about c of them
    for any n.  ``flush_subnormals`` takes subnormal numbers for zero, at the speed of others; None does so with
    ``fastmath``, except in calls of a few operations.  ``cache`` keeps the code on disk for later processes.
    ``separate``: compiled functions that call this one link to code of its own, which is compiled once, instead of
    compiling it again; None does so with large and recursive functions.
    """
    for name in unknown:
        raise _elsewhere().unknown_option("jit", name)
    _refuse_unbuilt(target, cache)
    options: dict[str, Any] = {
        "boundscheck": boundscheck, "static_shapes": static_shapes, "fastmath": fastmath,
        "flush_subnormals": flush_subnormals, "checkpoint": _checkpoint(checkpoint), "parallel": parallel,
        "separate": separate}
    if target != "cpu":
        options["target"] = target
    elif cache or os.environ.get("JITAD_CACHE", "0") not in ("", "0"):
        options["cache"] = True
    names = (static,) if isinstance(static, (str, int)) else tuple(static)
    if "cache" in options:
        with_room(_get_ready)
    if fun is None:
        return lambda f: _jit(f, grad, options, names)
    return _jit(fun, grad, options, names)


def _get_ready() -> None:
    """Imports what calls of cached functions need, while the user's modules are imported too."""
    from .caching import cache
    from .calling import dispatch  # noqa: F401
    cache.get_ready()


SNAPSHOTS = 16
"""States saved by ``checkpoint="binomial"``: enough for 20,000 iterations if steps are recomputed 5 times."""


def _checkpoint(option: Any) -> str | int | None:
    """The option in the compiler's form: ``"sqrt"``, a number of states, or None."""
    if option is None or option is False:
        return None
    if option is True or option == "sqrt":
        return "sqrt"
    count = SNAPSHOTS if option == "binomial" else option
    if isinstance(option, tuple) and len(option) == 2 and option[0] == "binomial":
        count = option[1]
    if not isinstance(count, int) or isinstance(count, bool):
        raise ValueError(f"checkpoint={option!r}: it is True, 'sqrt', 'binomial', ('binomial', states), or states")
    if count < 1:
        raise ValueError(f"checkpoint={option!r}: at least one state has to be kept")
    return count


def _refuse_unbuilt(target: str, cache: bool) -> None:
    """Raises an error for a target that there is not, and for what a target does not do."""
    if target not in TARGETS:
        raise ValueError(f"no target {target!r}: there are {', '.join(map(repr, TARGETS))}")
    if cache and target != "cpu":
        raise UnsupportedError(f"jit(target={target!r}, cache=True): only code for this processor is kept on disk",
                               hint="omit cache=True; the PTX of kernels is kept on disk in any case")


def _jit(fun: Any, grad: Grad, options: dict[str, Any], static: tuple[str | int, ...]) -> Any:
    if isinstance(fun, (staticmethod, classmethod)):
        return type(fun)(_jit(fun.__func__, grad, options, static))
    if not callable(fun):
        hint = "; types come from the arguments of a call" if isinstance(fun, (str, list, tuple)) else ""
        raise TypeError(f"jit takes a function, not {fun!r}{hint}")
    fun = types.MethodType(fun.py_func, fun.__self__) if isinstance(fun, _Bound) else getattr(fun, "py_func", fun)
    if isinstance(fun, types.FunctionType):
        return _made(fun, grad, options, static, False)
    from .frontend.callables.traceable import OfMethod, method_of
    parts = method_of(fun)
    if parts is not None:
        return _of_method(*parts, grad, options, static)
    return _made(fun, grad, options, static, isinstance(fun, OfMethod))


def _made(fun: Any, grad: Grad, options: dict[str, Any], static: tuple[str | int, ...], whole: bool) -> Any:
    made = Handle(fun, options, static, None, whole).target
    made.__name__ = made.__qualname__ = getattr(fun, "__name__", type(fun).__name__)
    functools.update_wrapper(made, fun)
    if grad is not False:
        argnums = 0 if grad is True else grad
        for kind in ("grad", "value_and_grad"):
            setattr(made, kind, _derivative(made, kind, argnums, options, static, whole))
    return made


def _of_method(fun: Any, obj: Any, grad: Grad, options: dict[str, Any], static: tuple[str | int, ...]) -> Any:
    """The object for a method, or for an object with ``__call__``: all objects of a class share its code."""
    from .frontend.callables.compile_cache import compiled_of
    grad = tuple(grad) if isinstance(grad, list) else grad
    table, key = compiled_of(fun), ("jit", grad, type(grad), tuple(options.items()), static)
    if key not in table:
        argnums: Grad = _after_self(0 if grad is True else grad) if grad is not False else False
        table[key] = _made(fun, argnums, options, tuple(map(_after_self, static)), True)
    return bound_to(obj, table[key])


def _after_self(key: Any) -> Any:
    """The position among the parameters, including ``self``, of an argument of a method; also for tuples."""
    if isinstance(key, tuple):
        return tuple(map(_after_self, key))
    return key + 1 if isinstance(key, int) and key >= 0 else key


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


def _derivative(owner: Any, kind: str, argnums: Any, options: dict[str, Any], static: tuple[str | int, ...],
                whole: bool) -> Any:
    """The object for a derivative, which becomes ``owner.kind``."""
    made = Handle(owner.py_func, options, static, (kind, argnums), whole).target
    functools.update_wrapper(made, owner)
    made.__name__, made.__qualname__ = kind, f"{owner.__qualname__}.{kind}"
    made.__doc__ = f"The {'value and the ' if kind != 'grad' else ''}gradient of {owner.__name__}."
    return made


class Handle:
    """A jitted function before its first call or inspection: the Python function and its options.

    The first call imports the compiler; ``import jitad`` does not.  ``derive``: the name of a transform and its
    argnums; ``whole``: the first argument is an object, of which the attributes that the program uses are read at each
    call.
    """

    _lock = handle_lock

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any], static: tuple[str | int, ...],
                 derive: tuple[str, Any] | None = None, whole: bool = False, target: Any = None) -> None:
        self.fun, self.options, self.static, self.derive, self.whole = fun, options, static, derive, whole
        self.dispatcher: Dispatcher | None = None
        self.target = native_callable.make(Handle.__call__, self) if target is None else target

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return (self.dispatcher or self.wake())(*args, **kwargs)
        except Exception as error:
            error.__traceback__ = shown(error)
            raise

    def wake(self) -> Dispatcher:
        """The dispatcher; makes it on the first call, which imports the compiler."""
        return with_room(self._wake)

    def _wake(self) -> Dispatcher:
        from .frontend.captured.options import Options
        kind = self._dispatcher_class()
        with Handle._lock:
            if self.dispatcher is None:
                options = {name: value for name, value in self.options.items() if name != "cache"}
                made = kind(self.target, self.fun, Options(**options), self.static, self.derive,
                            register_transforms, "cache" in self.options)
                made.whole = self.whole
                self.dispatcher = self.dispatcher or made        # a signal handler may have made it meanwhile
        return self.dispatcher

    def _dispatcher_class(self) -> type[Dispatcher]:
        """The class of the dispatcher, which is imported when it is needed."""
        if "target" in self.options:
            from .gpu.dispatch import DeviceDispatcher
            return DeviceDispatcher
        from .calling.dispatch import Dispatcher
        return Dispatcher


def register_transforms() -> None:
    """Lets transforms compile what is called outside traced code, and pickle as jitted functions do."""
    from .frontend.callables.traceable import register
    register(jit, bound_to, reduced)


# --- attributes of the object ---------------------------------------------------------------------

def dispatcher(jitted: Any) -> Dispatcher:
    """The dispatcher of a jitted function, which compiles it and holds its code."""
    handle = _handle(jitted)
    return handle.dispatcher or handle.wake()


def _handle(jitted: Any) -> Handle:
    found: Handle = jitted._function._self if _is_bound(jitted) else jitted._self
    return found


def _is_bound(jitted: Any) -> bool:
    """True if it calls another jitted function with an object as first argument (``bound_to``)."""
    return type(jitted._function) is Jit


def exported(fun: Any) -> Dispatcher:
    """The dispatcher of a function for C, which is compiled first if it is plain.

    A method of an object is refused, and a function that runs on a device.
    """
    jitted = fun if getattr(type(fun), "is_jitad", False) else jit(fun)
    if not getattr(type(jitted), "is_jitad", False) or _is_bound(jitted):
        raise UnsupportedError(f"{fun!r} is a method of an object", hint="export a function that calls it")
    found = dispatcher(jitted)
    if (target := found.options.target) != "cpu":
        from .frontend.operations.builtin import location
        name = found.written.__name__
        raise UnsupportedError(f"a C interface of {name}, which is jit(target={target!r}): C gets code of the CPU",
                               location(found.written), f"export {name}.py_func, which has no target")
    return found


def given_to(jitted: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call with the bound object, if any, in front."""
    return (jitted._self, *args) if _is_bound(jitted) else args


def _py_func(self: Any) -> Any:
    """The Python function; for a derivative, the transform."""
    handle = _handle(self)
    found = handle.fun if handle.derive is None else dispatcher(self).fun
    return types.MethodType(found, self._self) if _is_bound(self) else found


def _jit_options(self: Any) -> dict[str, Any]:
    """The options given to ``jit``, except ``grad``."""
    handle = _handle(self)
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
    from .aot.functions import cfunc
    return cfunc(exported(self), signature)


def _address(self: Any, signature: Any = None) -> int:
    """The address of ``f.cfunc(signature)``, which stays valid until the process ends."""
    from .aot.functions import address
    return address(exported(self), signature)


def _missing(self: Any, name: str) -> Any:
    if name in ("__name__", "__qualname__"):
        return "<unnamed>"
    if name in ("grad", "value_and_grad"):
        raise AttributeError(f"{self.__name__} has no gradient: write @jit(grad=True), or jitad.{name}(f)")
    raise _elsewhere().unknown_method(self.__name__, name)


def _elsewhere() -> Any:
    """The module that knows names of other libraries; it is imported when a name is unknown."""
    from .frontend.values import other_libraries
    return other_libraries


def reduced(self: Any, protocol: Any = None) -> Any:
    """By reference if an importable module has the object under its name, else by value."""
    from .pickling import places, travel
    if type(self) is Jit and _is_bound(self) and places.place(self) is None:
        return bound_to, (travel.Value(self._self), self._function)
    return travel.reduced(self)


def _reduce_by_value(self: Any) -> Any:
    """Its form for a pickler of ``pickling``: made empty and filled later, since what it captures may lead back."""
    attributes = {name: value for name, value in vars(self).items() if name != "__jitad_compiled__"}
    if _is_bound(self):
        parts: tuple[Any, ...] = self._function, self._self
    else:
        handle = _handle(self)
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


class _Bound:
    """A jitted method of an object: it and its derivatives are called with the object as first argument."""

    def __init__(self, jitted: Any, obj: Any) -> None:
        self.__func__, self.__self__ = jitted, obj

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, _Bound) and self.__func__ is other.__func__ and self.__self__ is other.__self__)

    def __hash__(self) -> int:
        return hash((self.__func__, id(self.__self__)))

    def __copy__(self) -> Any:
        return _Bound(self.__func__, self.__self__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _Bound(self.__func__, copy.deepcopy(self.__self__, memo))

    def __reduce__(self) -> Any:
        from .pickling import places, travel
        if places.place(type(self.__self__)) is None:
            return _Bound, (self.__func__, travel.Value(self.__self__))
        name = self.__func__.__name__
        named = getattr(self.__self__, name, None) == self
        return (getattr, (self.__self__, name)) if named else self._reduce_by_value()

    def _reduce_by_value(self) -> Any:
        return _Bound, (self.__func__, self.__self__)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__func__, name)
        return _Bound(found, self.__self__) if name in ("grad", "value_and_grad") else found

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
    return self if obj is None else _Bound(self, obj)


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

