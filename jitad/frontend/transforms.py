"""The differentiation functions, inside traced code and outside.

A transform (``grad(f)``) is an object.  Called in traced code, it traces ``f`` as an IR function of its own, asks the
module for a derivative of that (``Module.derive``) and calls it; the ``ad`` pass makes the derivative later.  A
derivative is an ordinary function, so transforms nest to any order, and variables that ``f`` captured are parameters
of its IR function like others, which keeps perturbations apart.  Called outside, a transform is compiled like any
function.

Jacobians and maps are loops over derivatives and functions: ``jacobians.py``, ``mapped.py``.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DifferentiationError
from . import data, jacobians, pytree
from .applied import Applied, map_floats, snapshot
from .axes import parse
from .mapped import Mapped
from .packed import returned
from .pullbacks import pull_back_later
from .values import tracing

Argnums = int | str | tuple[int | str, ...]
_compile: Callable[..., Any] | None = None                 # ``api.jit``, once that is imported
_MEMO = "__jitad_compiled__"


def register(compile: Callable[..., Any]) -> None:
    """Say how a transform that is called outside traced code becomes native code."""
    global _compile
    _compile = compile


class Traceable:
    """Something that is called in traced code with ``traced_call``, and outside like a function."""

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for the user values ``args``, emitted through the trace ``t``."""
        raise NotImplementedError


# --- transforms of a function ---------------------------------------------------------------------

class Transform(Traceable):
    """A function made from ``fun``; ``static`` holds how, hashably (``values.Composite``)."""

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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return compiled(self)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<jitad {self.name} of {getattr(self.fun, '__qualname__', self.fun)}>"

    @property
    def __signature__(self) -> Any:
        return inspect.signature(self.fun)


def as_written(fun: Any) -> tuple[Any, dict[str, Any]]:
    """The function behind a jitted one, or behind a jitted method of an object, and what ``jit`` was told."""
    if getattr(type(fun), "is_jitad", False):
        return fun.py_func, fun.jit_options
    method = getattr(fun, "__func__", None)
    if getattr(type(method), "is_jitad", False):
        return types.MethodType(method.py_func, fun.__self__), method.jit_options        # type: ignore[union-attr]
    return fun, {}


def native(fun: Any, options: dict[str, Any] | None = None) -> Any:
    """The jitted form of something that is called in traced code."""
    if _compile is None:
        raise DifferentiationError("the compiler has not been loaded", hint="import jitad")
    return _compile(fun, **options or {})


def compiled(transform: Transform) -> Any:
    """The jitted form of a transform; one for equal transforms of one function, however often it is written."""
    own = type(transform).__signature__ is None               # (primals, …): names of parameters mean nothing there
    options = {**transform.options, "static": ()} if own else transform.options
    table, key = _compiled_of(transform.fun), (type(transform), transform.static, tuple(options.items()))
    if key not in table:
        table[key] = native(transform, options)
    return table[key]


def _compiled_of(fun: Any) -> dict[Any, Any]:
    """What has been compiled from a function; it lives as long as the function does."""
    bound = isinstance(fun, types.MethodType)
    holder = fun.__func__ if bound else fun
    known: tuple[Any, dict[Any, Any]] | None = getattr(holder, _MEMO, None)
    if known is None or known[0] is not holder:             # wrappers copy the attributes of what they wrap
        known = (holder, {})
        try:
            setattr(holder, _MEMO, known)
        except AttributeError:
            pass                                            # an object without room: compiled each time
    if not bound:
        return known[1]
    of_object: tuple[Any, dict[Any, Any]] = known[1].setdefault(id(fun.__self__), (fun.__self__, {}))
    return of_object[1]


class ValueAndGrad(Transform):
    """``static``: argnums, has_aux."""

    name = "value_and_grad"

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        argnums, has_aux = self.static
        f = Applied(t, self.fun, args, kwargs, argnums, self.name)
        return f.value_and_gradient(has_aux)


class Grad(ValueAndGrad):
    name = "grad"

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out, gradient = super().traced_call(t, args, kwargs)
        return (gradient, out[1]) if self.static[1] else gradient


class Pull(Transform):
    """(primals, cotangent) → a tuple of the primals' cotangents; ``static``: which primals, if not all."""

    name = "vjp"
    __signature__: Any = None   # (primals, cotangent), not the parameters of the function

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        primals = tuple(t.iterate(args[0]))
        f = Applied(t, self.fun, primals, {}, self.static or tuple(range(len(primals))), self.name)
        return f.pull_back(args[1])


class Push(Transform):
    """(primals, tangents) → (result, tangent of the result); ``static``: which primals, if not all."""

    name = "jvp"
    __signature__: Any = None   # (primals, tangents), not the parameters of the function

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        primals, tangents = (tuple(t.iterate(x)) for x in args)
        f = Applied(t, self.fun, primals, {}, self.static or tuple(range(len(primals))), self.name)
        return f.push_forward(tangents)


class JacRev(Transform):
    """``static``: argnums."""

    name = "jacrev"

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return jacobians.reverse(Applied(t, self.fun, args, kwargs, self.static[0], self.name))


class JacFwd(Transform):
    """``static``: argnums."""

    name = "jacfwd"

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return jacobians.forward(Applied(t, self.fun, args, kwargs, self.static[0], self.name))


class Vmap(Transform):
    """``static``: in_axes, out_axes (``axes.Axes``)."""

    name = "vmap"

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        in_axes, out_axes = self.static
        return Mapped(t, self.fun, in_axes, args, kwargs).run(out_axes)


class HessianProduct(Transform):
    """(primals, tangents) → the Hessian times the tangents: forward mode over reverse."""

    name = "hvp"
    __signature__: Any = None   # (primals, tangents), not the parameters of the function

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        n = len(t.iterate(args[0]))
        products = Push(Grad(self.fun, tuple(range(n)), False)).traced_call(t, args, {})[1]
        return products[0] if n == 1 else products


# --- linear functions that hold on to their primals -------------------------------------------------

class Linear(Traceable):
    """What ``linearize`` returns in traced code: forward mode at fixed primals (snapshots)."""

    static = None

    def __init__(self, push: Push, primals: tuple[Any, ...]) -> None:
        self.push, self.primals = push, primals

    def parts(self) -> tuple[Any, ...]:
        return (self.push, self.primals)

    def with_parts(self, parts: tuple[Any, ...]) -> Linear:
        return Linear(*parts)

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return t.call(self.push, self.primals, tuple(args))[1]


# --- the functions ----------------------------------------------------------------------------------

class Maker(Traceable):
    """``grad`` and its like: they make a transform, in traced code and outside alike."""

    def __init__(self, make: Callable[..., Transform]) -> None:
        functools.update_wrapper(self, make)
        self.make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self.make(*args, **kwargs)
        return made if tracing() else compiled(made)

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        settings = {k: v if k == "fun" else data.export(t, v) for k, v in kwargs.items()}
        return self.make(*args[:1], *(data.export(t, v) for v in args[1:]), **settings)


class Immediate(Traceable):
    """``vjp`` and its like: they take the function and its arguments at once."""

    def __init__(self, outside: Callable[..., Any]) -> None:
        functools.update_wrapper(self, outside)
        self.outside = outside
        self.inside: Callable[..., Any] | None = None

    def traced(self, inside: Callable[..., Any]) -> Immediate:
        """Decorate what it does in traced code."""
        self.inside = inside
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.outside(*args, **kwargs)

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self.inside is not None
        return self.inside(t, *args, **kwargs)


def _argnums(argnums: Any) -> Argnums:
    if isinstance(argnums, bool) or not isinstance(argnums, (int, str, tuple, list)):
        raise TypeError(f"argnums takes positions, names, or a tuple of them, not {argnums!r}")
    return tuple(argnums) if isinstance(argnums, list) else argnums


@Maker
def grad(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The gradient of a function that returns one float.

    ``argnums`` takes positions, names, or a tuple of them; one gives that argument's structure, a tuple a tuple.
    Leaves that are no floats have ``None`` for a gradient.  With ``has_aux`` the function returns ``(value, aux)``
    and the gradient ``(gradient, aux)``.
    """
    return Grad(fun, _argnums(argnums), bool(has_aux))


@Maker
def value_and_grad(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The value of a function and its gradient; see ``grad``.  With ``has_aux``: ``((value, aux), gradient)``."""
    return ValueAndGrad(fun, _argnums(argnums), bool(has_aux))


@Maker
def jacrev(fun: Any, argnums: Argnums = 0) -> Transform:
    """The Jacobian by reverse mode, a row for each element of the result.

    The result's structure with, in the place of each float, the structure of the argument (a tuple for a tuple of
    ``argnums``, as for ``grad``); an array there has the axes of the result and then those of the argument.  Leaves
    that are no floats have ``None``.
    """
    return JacRev(fun, _argnums(argnums))


@Maker
def jacfwd(fun: Any, argnums: Argnums = 0) -> Transform:
    """The Jacobian by forward mode, a column for each element of the argument; see ``jacrev``."""
    return JacFwd(fun, _argnums(argnums))


@Maker
def hessian(fun: Any, argnums: Argnums = 0) -> Transform:
    """The second derivatives of a function that returns one float: forward mode over reverse; see ``jacrev``."""
    wrt = _argnums(argnums)
    return JacFwd(Grad(fun, wrt, False), wrt)


@Maker
def vmap(fun: Any, in_axes: Any = 0, out_axes: Any = 0) -> Transform:
    """``fun`` for each element along an axis of its arguments, the results stacked.

    ``in_axes``: the axis to map, or ``None`` for an argument that is the same for all elements; for all arguments
    together, or in a tuple one for each, or in trees that stand for the start of the arguments'.  Arguments by name
    are mapped over their first axis.  ``out_axes``: where the results have the new axis, in the same way; ``None``
    for a result that does not depend on the element.  Raises ``ValueError`` where sizes differ.
    """
    return Vmap(fun, parse(in_axes, "in_axes"), parse(out_axes, "out_axes"))


def kept_apart(primals: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with arrays of their own, which later writes do not reach."""
    return pytree.map_leaves(lambda x: x.copy() if isinstance(x, np.ndarray) else x, primals)


@Immediate
def vjp(fun: Any, *primals: Any) -> Any:
    """``(fun(*primals), pullback)``: ``pullback(cotangent)`` gives a tuple of the primals' cotangents.

    The cotangent has the structure of the result, with ``None`` for leaves that are no floats, or for zero.  In
    compiled code the forward sweep runs once, whatever the number of pullbacks; outside, a pullback runs both.
    """
    pull, kept = Pull(fun), kept_apart(primals)
    out = compiled(Same(fun))(*primals)
    return out, lambda cotangent: returned(compiled(pull)(kept, cotangent), primals)


@vjp.traced
def _vjp(t: Any, fun: Any, *primals: Any) -> Any:
    return pull_back_later(t, fun, primals)


@Immediate
def jvp(fun: Any, primals: Any, tangents: Any) -> Any:
    """``(fun(*primals), tangent)``: the derivative in the direction of ``tangents``, by forward mode."""
    return compiled(Push(fun))(tuple(primals), tuple(tangents))


@jvp.traced
def _jvp(t: Any, fun: Any, primals: Any, tangents: Any) -> Any:
    return Push(fun).traced_call(t, (primals, tangents), {})


@Immediate
def hvp(fun: Any, primals: Any, tangents: Any) -> Any:
    """The Hessian of ``fun`` at ``primals`` times ``tangents``: tuples; of a single primal its own structure."""
    return compiled(HessianProduct(fun))(tuple(primals), tuple(tangents))


@hvp.traced
def _hvp(t: Any, fun: Any, primals: Any, tangents: Any) -> Any:
    return HessianProduct(fun).traced_call(t, (primals, tangents), {})


@Immediate
def linearize(fun: Any, *primals: Any) -> Any:
    """``(fun(*primals), linear)``: ``linear(*tangents)`` is the derivative in that direction.

    It is computed by forward mode, together with the value, at each call.
    """
    push, kept = Push(fun), kept_apart(primals)
    out = compiled(Same(fun))(*primals)
    return out, lambda *tangents: compiled(push)(kept, tangents)[1]


@linearize.traced
def _linearize(t: Any, fun: Any, *primals: Any) -> Any:
    kept = tuple(snapshot(t, p) for p in primals)
    return t.call(fun, *primals), Linear(Push(fun), kept)


@Immediate
def stop_gradient(x: Any) -> Any:
    """``x``, taken for a constant by differentiation."""
    return x


@stop_gradient.traced
def _stop_gradient(t: Any, x: Any) -> Any:
    return map_floats(t, x, lambda v: t.builder.stop(v))


class Same(Transform):
    """The function itself, compiled."""

    name = "call"

    def traced_call(self, t: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return t.call(self.fun, *args, **kwargs)
