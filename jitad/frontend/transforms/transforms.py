"""The differentiation functions, in traced code and outside.

A transform (``grad(f)``) is an object.  A call in traced code traces ``f`` as an IR function of its own, requests a
derivative of it from the module (``Module.derive``), and calls that; the ``ad`` pass makes the derivative later.  A
derivative is an ordinary function, so transforms nest to any order.  Variables that ``f`` captures are ordinary
parameters of its IR function, which keeps perturbations apart.  Outside traced code, a transform is compiled like any
function.

Jacobians and maps are loops over derivatives and functions: ``jacobians.py``, ``vmap.py``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import pytree
from ...errors import DifferentiationError
from ...ir.types import I32, I64
from ..arrays.library import marks
from ..callables.traceable import Immediate, Maker, Traceable, Transform, compiled, described
from ..columns.pack import returned
from ..operations.builtin import location
from ..values.protocol import Trace
from ..values.values import Sym
from . import jacobians
from .axes import parse
from .derivative_call import Applied, map_floats, snapshot
from .pullbacks import pull_back_later
from .snapshot import as_now
from .vmap import Mapped

Argnums = int | str | tuple[int | str, ...]


class ValueAndGrad(Transform):
    """``static``: argnums, has_aux."""

    name = "value_and_grad"

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        argnums, has_aux = self.static
        f = Applied(t, self.fun, args, kwargs, argnums, self.name)
        return f.value_and_gradient(has_aux)


class Grad(ValueAndGrad):
    name = "grad"

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out, gradient = super().traced_call(t, args, kwargs)
        return (gradient, out[1]) if self.static[1] else gradient


class Pull(Transform):
    """(primals, cotangent) → a tuple of the primals' cotangents; ``static``: has_aux."""

    name = "vjp"
    __signature__: Any = None   # (primals, cotangent), not the parameters of the function

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        primals = tuple(t.iterate(args[0]))
        f = Applied(t, self.fun, primals, {}, tuple(range(len(primals))), self.name)
        return f.pull_back(args[1], *self.static)


class Push(Transform):
    """(primals, tangents) → (result, tangent of the result), and aux if there is one; ``static``: has_aux."""

    name = "jvp"
    __signature__: Any = None   # (primals, tangents), not the parameters of the function

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        primals, tangents = (tuple(t.iterate(x)) for x in args)
        f = Applied(t, self.fun, primals, {}, tuple(range(len(primals))), self.name)
        return f.push_forward(tangents, *self.static)


class JacRev(Transform):
    """``static``: argnums, has_aux."""

    name = "jacrev"

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        argnums, has_aux = self.static
        return jacobians.reverse(Applied(t, self.fun, args, kwargs, argnums, self.name), has_aux)


class JacFwd(Transform):
    """``static``: argnums, has_aux."""

    name = "jacfwd"

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        argnums, has_aux = self.static
        return jacobians.forward(Applied(t, self.fun, args, kwargs, argnums, self.name), has_aux)


class Vmap(Transform):
    """``static``: in_axes, out_axes (``axes.Axes``), axis_size; an axis_size known only at run time is a part."""

    name = "vmap"
    size: Any = None

    def parts(self) -> tuple[Any, ...]:
        return (self.fun,) if self.size is None else (self.fun, self.size)

    def with_parts(self, parts: tuple[Any, ...]) -> Vmap:
        made: Vmap = super().with_parts(parts)
        made.size = parts[1] if len(parts) > 1 else None
        return made

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        in_axes, out_axes, size = self.static
        return Mapped(t, self.fun, in_axes, args, kwargs, size if self.size is None else self.size).run(out_axes)


class HessianProduct(Transform):
    """(primals, tangents) → the Hessian times the tangents: forward mode over reverse."""

    name = "hvp"
    __signature__: Any = None   # (primals, tangents), not the parameters of the function

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        n = len(t.iterate(args[0]))
        products = Push(Grad(self.fun, tuple(range(n)), False)).traced_call(t, args, {})[1]
        return products[0] if n == 1 else products


# --- linear functions with fixed primals ------------------------------------------------------------

class Linear(Traceable):
    """The result of ``linearize`` in traced code: forward mode at fixed primals (snapshots)."""

    static = None

    def __init__(self, push: Push, primals: tuple[Any, ...]) -> None:
        self.push, self.primals = push, primals

    def parts(self) -> tuple[Any, ...]:
        return (self.push, self.primals)

    def with_parts(self, parts: tuple[Any, ...]) -> Linear:
        return Linear(*parts)

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return t.call(as_now(t, self.push), self.primals, tuple(args))[1]     # its side effects are on a copy


# --- the functions ----------------------------------------------------------------------------------

def _argnums(argnums: Any) -> Argnums:
    if isinstance(argnums, bool) or not isinstance(argnums, (int, str, tuple, list)):
        raise TypeError(f"argnums takes positions, names, or a tuple of them, not {described(argnums)}")
    return tuple(argnums) if isinstance(argnums, list) else argnums


@Maker
def grad(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The gradient of a function that returns one float.

    ``argnums`` is a position, a name, or a tuple of them; the gradient has the structure of that argument, or is a
    tuple of gradients.  The gradient of a leaf that is not a float is ``None``.  With ``has_aux``, the function returns
    ``(value, aux)`` and the gradient is ``(gradient, aux)``.
    """
    return Grad(fun, _argnums(argnums), bool(has_aux))


@Maker
def value_and_grad(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The value of a function and its gradient; see ``grad``.  With ``has_aux``: ``((value, aux), gradient)``."""
    return ValueAndGrad(fun, _argnums(argnums), bool(has_aux))


@Maker
def jacrev(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The Jacobian by reverse mode, one row for each element of the result.

    It has the structure of the result, in which each float is replaced by the structure of the argument (for a tuple of
    ``argnums`` a tuple of structures, as for ``grad``).  An array there has the axes of the result, followed by those
    of the argument.  Leaves that are not floats are ``None``.  With ``has_aux``, the function returns ``(out, aux)``
    and the result is ``(Jacobian, aux)``.
    """
    return JacRev(fun, _argnums(argnums), bool(has_aux))


@Maker
def jacfwd(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The Jacobian by forward mode, one column for each element of the argument; see ``jacrev``."""
    return JacFwd(fun, _argnums(argnums), bool(has_aux))


@Maker
def hessian(fun: Any, argnums: Argnums = 0, has_aux: bool = False) -> Transform:
    """The second derivatives of a function that returns one float: forward mode over reverse; see ``jacrev``."""
    wrt = _argnums(argnums)
    return JacFwd(Grad(fun, wrt, bool(has_aux)), wrt, bool(has_aux))


@Maker
def vmap(fun: Any, in_axes: Any = 0, out_axes: Any = 0, *, axis_size: Any = None) -> Transform:
    """Maps ``fun`` over an axis of its arguments and stacks the results.

    ``in_axes`` is the axis to map, or ``None`` for an argument that is the same for all elements.  It is one value for
    all arguments, or a tuple with one for each; each may be a tree that is a prefix of the argument's tree.  Keyword
    arguments are mapped over their first axis.  ``out_axes`` is the position of the new axis in the results, in the
    same form; ``None`` is for a result that does not depend on the element.  ``axis_size`` is the number of elements,
    which is needed if all ``in_axes`` are ``None``.  Raises ``ValueError`` if sizes differ.
    """
    at_run_time = isinstance(axis_size, Sym)
    if at_run_time and (axis_size.is_array or axis_size.scalar not in (I64, I32)) or not at_run_time and not (
            axis_size is None or isinstance(axis_size, (int, np.integer)) and not isinstance(axis_size, bool)):
        raise TypeError(f"vmap: axis_size is an integer, not {described(axis_size)}")
    known = None if at_run_time or axis_size is None else int(axis_size)
    made = Vmap(fun, parse(in_axes, "in_axes"), parse(out_axes, "out_axes"), known)
    made.size = axis_size if at_run_time else None
    return made


def kept_apart(primals: tuple[Any, ...]) -> tuple[Any, ...]:
    """The primals with copies of their arrays, which later writes do not affect."""
    copies: tuple[Any, ...] = pytree.map_leaves(lambda x: x.copy() if isinstance(x, np.ndarray) else x, primals)
    return copies


@Immediate
def vjp(fun: Any, *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), pullback)``: ``pullback(cotangent)`` returns a tuple of the primals' cotangents.

    The cotangent has the structure of the result, with ``None`` for leaves that are not floats, or for zero.  In
    compiled code the forward sweep runs once for all calls of the pullback; outside, each call runs both sweeps.  With
    ``has_aux``, the function returns ``(out, aux)`` and the result is ``(out, pullback, aux)``.
    """
    pull, kept = Pull(fun, bool(has_aux)), kept_apart(primals)
    out = compiled(Same(fun))(*primals)
    pullback = functools.partial(_pulled, pull, kept, primals)
    if not has_aux:
        return out, pullback
    if type(out) is not tuple or len(out) != 2:
        raise DifferentiationError("vjp with has_aux takes a function that returns (value, aux)", location(fun))
    return out[0], pullback, out[1]


def _pulled(pull: Pull, kept: tuple[Any, ...], primals: tuple[Any, ...], cotangent: Any) -> Any:
    return returned(compiled(pull)(kept, cotangent), primals)


@vjp.traced
def _vjp(t: Trace, fun: Any, *primals: Any, has_aux: bool = False) -> Any:
    return pull_back_later(t, fun, primals, bool(has_aux))


@Immediate
def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), tangent)``: the derivative in the direction of ``tangents``, by forward mode.

    With ``has_aux``, the function returns ``(out, aux)`` and the result is ``(out, tangent, aux)``.
    """
    return compiled(Push(fun, bool(has_aux)))(tuple(primals), tuple(tangents))


@jvp.traced
def _jvp(t: Trace, fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    return Push(fun, bool(has_aux)).traced_call(t, (primals, tangents), {})


@Immediate
def hvp(fun: Any, primals: Any, tangents: Any) -> Any:
    """The Hessian of ``fun`` at ``primals`` times ``tangents``; a tuple, or a single structure for a single primal."""
    return compiled(HessianProduct(fun))(tuple(primals), tuple(tangents))


@hvp.traced
def _hvp(t: Trace, fun: Any, primals: Any, tangents: Any) -> Any:
    return HessianProduct(fun).traced_call(t, (primals, tangents), {})


@Immediate
def linearize(fun: Any, *primals: Any) -> Any:
    """``(fun(*primals), linear)``: ``linear(*tangents)`` is the derivative in that direction.

    Each call of ``linear`` computes it by forward mode, together with the value.
    """
    push, kept = Push(fun), kept_apart(primals)
    out = compiled(Same(fun))(*primals)
    return out, functools.partial(_pushed, push, kept)


def _pushed(push: Push, kept: tuple[Any, ...], *tangents: Any) -> Any:
    return compiled(push)(kept, tangents)[1]


@linearize.traced
def _linearize(t: Trace, fun: Any, *primals: Any) -> Any:
    linear = Linear(Push(as_now(t, fun)), tuple(snapshot(t, p) for p in primals))
    return t.call(fun, *primals), linear


@Immediate
def stop_gradient(x: Any) -> Any:
    """Returns ``x``, which differentiation treats as a constant."""
    return x


@stop_gradient.traced
def _stop_gradient(t: Trace, x: Any) -> Any:
    return map_floats(t, x, lambda v: t.builder.stop(v))


@Immediate
def relu(x: Any) -> Any:
    """The maximum of ``x`` and 0, for numbers and arrays; the derivative at 0 is 0."""
    return marks.positive_part(x)


@relu.traced
def _relu(t: Trace, x: Any) -> Any:
    return t.call(marks.positive_part, x)


class Same(Transform):
    """The function itself, compiled without a derivative."""

    name = "call"

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return t.call(self.fun, *args, **kwargs)
