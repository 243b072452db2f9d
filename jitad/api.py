"""``jit``: its options, and the objects that it makes.

Calls of these run at the speed of a C function (``lowering.python.callable``).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .calling.handle import Handle
from .calling.jitted import Bound, alone, bound_to, elsewhere, reduced
from .compiler_threads import with_room
from .errors import UnsupportedError, switched_on

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
        raise elsewhere().unknown_option("jit", name)
    _refuse_unbuilt(target, cache)
    options: dict[str, Any] = {
        "boundscheck": boundscheck, "static_shapes": static_shapes, "fastmath": fastmath,
        "flush_subnormals": flush_subnormals, "checkpoint": _checkpoint(checkpoint), "parallel": parallel,
        "separate": separate}
    if target != "cpu":
        options["target"] = target
    elif cache or switched_on("JITAD_CACHE"):
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
    fun = types.MethodType(fun.py_func, fun.__self__) if isinstance(fun, Bound) else getattr(fun, "py_func", fun)
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


def _derivative(owner: Any, kind: str, argnums: Any, options: dict[str, Any], static: tuple[str | int, ...],
                whole: bool) -> Any:
    """The object for a derivative, which becomes ``owner.kind``."""
    made = Handle(owner.py_func, options, static, (kind, argnums), whole).target
    functools.update_wrapper(made, owner)
    made.__name__, made.__qualname__ = kind, f"{owner.__qualname__}.{kind}"
    made.__doc__ = f"The {'value and the ' if kind != 'grad' else ''}gradient of {owner.__name__}."
    return made


def register_transforms() -> None:
    """Lets transforms compile what is called outside traced code, and pickle as jitted functions do."""
    from .frontend.callables.traceable import register
    register(jit, bound_to, reduced)


def exported(fun: Any) -> Dispatcher:
    """The dispatcher of a function for C, which is compiled first if it is plain."""
    return alone(fun if getattr(type(fun), "is_jitad", False) else jit(fun), fun)
