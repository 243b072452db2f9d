"""A call of a function in traced code and its derivative: reverse (pull back) or forward (push forward).

The function is traced as ``trampolines.outputs`` of it, whose IR function returns the leaves of the result one by one.
The arguments to differentiate with respect to are passed as fresh stand-ins with IR values of their own.  Those values
identify the parameters of the IR function.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import pytree
from ...errors import DifferentiationError, Loc
from ...ir.graph import Value
from ...ir.types import STACK, Array, Stack, Type, dtype_of, is_float
from ...pytree import Structure
from ..arrays.rules import lengths
from ..callables import trampolines
from ..objects import containers
from ..operations import builtin
from ..trees.nodes import ENTER
from ..values.closures import Fn
from ..values.lattice import is_number
from ..values.protocol import Trace
from ..values.values import ArrayRef, Choice, Sym
from ..values.variant_guards import presence
from . import argnums as argnums_
from .tangents import like, read, same_references, tangent_like

Seed = Callable[[int, Sequence[Value]], Value | None]
DIFFERENTIATED = "it is an argument of a function that is differentiated"


# --- leaves of user values --------------------------------------------------------------------------

def leaves_of(t: Trace, v: Any) -> tuple[list[Any], Structure]:
    """The leaves of a user value as ``Sym``s and static values, and its structure."""
    leaves, structure = pytree.flatten(containers.export(t, v))
    return [read(t, x) for x in leaves], structure


def user_value(t: Trace, structure: Structure, leaves: Sequence[Any]) -> Any:
    """The inverse of ``leaves_of``; its arrays are new ones."""
    return containers.import_(t, pytree.unflatten(structure, leaves))


def snapshot(t: Trace, v: Any) -> Any:
    """A copy of a value, which later changes to arrays do not affect."""
    leaves, structure = leaves_of(t, v)
    return user_value(t, structure, leaves)


def map_floats(t: Trace, v: Any, fun: Callable[[Value], Value]) -> Any:
    """The value with ``fun`` applied to every float that is a run-time value."""
    leaves, structure = leaves_of(t, v)
    return user_value(t, structure, [Sym(fun(x.value), x.weak) if isinstance(x, Sym) and is_float(x.type) else x
                                     for x in leaves])


def _is_float(x: Any) -> bool:
    return is_float(x.type) if isinstance(x, Sym) else isinstance(x, (float, np.floating))


class Flatten:
    """Flattens a result for ``trampolines.outputs``: a tuple of its static structure and its leaves, all fresh."""

    static = None

    def __init__(self, loss: bool = False) -> None:
        self.loss = loss

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        v = args[0]
        t.builder.loc = t.func.loc                       # errors in the result are reported at the function
        if self.loss and type(v) is Choice:
            v = t.over(v, self._float_or_error)
        leaves, structure = pytree.flatten(containers.export(t, v))
        seen: set[int] = {id(obj) for obj in t.pinned}
        return (Fixed(structure), *(self._fresh(t, x, seen) for x in leaves))

    @staticmethod
    def _float_or_error(v: Any) -> Any:
        """The loss; raises an error only on the paths on which it is ``None`` or otherwise not a number."""
        if not isinstance(v, (Sym, ArrayRef, tuple)) and not is_number(v):
            raise TypeError(f"a function that is differentiated returns one float, not {containers.describe(v)}")
        return v

    @staticmethod
    def _fresh(t: Trace, x: Any, seen: set[int]) -> Any:
        """A leaf as a fresh value; objects that the caller already has would not be returned as results."""
        if isinstance(x, ArrayRef):
            own = not x.steps and not x.obj.readonly and id(x.obj) not in seen
            seen.add(id(x.obj))
            return x if own else t.new_array(Sym(t.builder.copy(t.read(x).value)))
        if not isinstance(x, Sym) and not is_number(x):
            t.unsupported(f"{containers.describe(x)} in the result of a function that is differentiated",
                          "return numbers, arrays, and tuples, lists or dicts of them")
        return t.sym(x)


FLATTEN, LOSS = Flatten(), Flatten(loss=True)


class Fixed:
    """A structure that is static among run-time values."""

    def __init__(self, structure: Structure) -> None:
        self.static = structure

    def parts(self) -> tuple[Any, ...]:
        return ()

    def with_parts(self, parts: tuple[Any, ...]) -> Fixed:
        return self


# --- the arguments --------------------------------------------------------------------------------

class Wrt:
    """An argument to differentiate with respect to: its leaves, with floats as fresh values.

    ``apart``: also make fresh values of the leaves that its derivatives share with it.
    """

    def __init__(self, t: Trace, argument: Any, apart: bool = False) -> None:
        leaves, self.structure = leaves_of(t, argument)
        self.leaves = [self._fresh(t, x) if _is_float(x) or (apart and fixed and isinstance(x, Sym)) else x
                       for x, fixed in zip(leaves, self.structure.tags())]
        self.floats = [x for x in self.leaves if isinstance(x, Sym) and is_float(x.type)]
        self.argument = containers.import_(t, pytree.unflatten(self.structure, [
            t.new_array(x, DIFFERENTIATED) if isinstance(x, Sym) and x.is_array else x for x in self.leaves]))

    @staticmethod
    def _fresh(t: Trace, x: Any) -> Sym:
        """The same value as a new IR value, by an op that simplification removes."""
        sym = t.sym(x)
        if sym.is_array:
            return Sym(t.builder.emit_op("as_type", [sym.value], type=sym.type).result, False)
        return Sym(t.builder.emit_op("cast", [sym.value], dtype=sym.type).result, sym.weak)

    def gradient(self, t: Trace, of: dict[Value, Value]) -> Any:
        """The argument's structure with cotangents for floats and None for other leaves."""
        return containers.import_(t, self.tree(lambda x: Sym(of[x.value], x.weak)))

    def tree(self, entry: Callable[[Sym], Any], shape: Callable[[Any], Any] = lambda x: x) -> Any:
        """The argument's structure with ``entry`` of its floats and None for other leaves.

        Leaves that derivatives share with the argument are mapped by ``shape``.
        """
        return pytree.as_gradient(self.structure, [
            entry(x) if isinstance(x, Sym) and is_float(x.type) else shape(x) if fixed else None
            for x, fixed in zip(self.leaves, self.structure.tags())])


@functools.cache
def named(program: Any, name: str, loc: Loc | None = None) -> Fn:
    """A function of ``trampolines`` with the name and location of the user's function that it represents."""
    fn = builtin.fn_of(program)
    code = dataclasses.replace(fn.code, name=name, loc=loc or fn.code.loc)
    return Fn(code, fn.slots, fn.defaults, fn.kw_defaults, fn.globals, fn.cells)


def outputs_of(fun: Any) -> Fn:
    return named(trampolines.outputs, str(getattr(fun, "__name__", "function")), builtin.location(fun))


# --- the function and its derivatives -----------------------------------------------------------------

class Applied:
    """``fun(*args, **kwargs)``, to be differentiated with respect to ``argnums``; ``what`` names the transform."""

    def __init__(self, t: Trace, fun: Any, args: Sequence[Any], kwargs: dict[str, Any], argnums: Any,
                 what: str) -> None:
        self.t, self.what, self.fun = t, what, fun
        self.loc = builtin.location(fun) if t.loc.file == trampolines.__file__ else t.loc
        kwargs = dict(kwargs)
        self.several = isinstance(argnums, tuple)
        places = argnums_.places(t, fun, argnums if isinstance(argnums, tuple) else (argnums,), args, kwargs, what,
                                 self.loc)
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        self.wrt = [Wrt(t, given[p]) for p in places]
        if not any(w.floats for w in self.wrt):
            found = " and ".join(containers.describe(containers.plain(t, given[p])) for p in places)
            raise DifferentiationError(f"{what} is with respect to {found}, which holds no float", self.loc,
                                       "pass a float: 3.0, x.astype(float)")
        given |= {p: w.argument for p, w in zip(places, self.wrt)}
        flatten = LOSS if what in ("grad", "value_and_grad") else FLATTEN
        self.ref = t.call_traced(outputs_of(fun), (ENTER, flatten, fun, tuple(given[i] for i in range(len(args))),
                                                     t.new_dict({k: given[k] for k in kwargs})), {})
        self._find_parameters()

    def _find_parameters(self) -> None:
        """Finds the positions of the floats among the parameters of the IR function."""
        index = {v: i for i, v in enumerate(self.ref.params)}
        found = sorted(index[x.value] for w in self.wrt for x in w.floats)
        self.positions = tuple(found)
        self.inputs = [self.ref.params[i] for i in found]
        self.float_results = [i for i, r in enumerate(self.ref.result_types) if is_float(r)]

    def finish(self, results: list[Value]) -> tuple[list[Sym], Structure]:
        """The leaves of the result in the caller, and their structure."""
        fixed, *leaves = self.ref.finish(self.t, results)
        return [self.t.read(x) if isinstance(x, ArrayRef) else x for x in leaves], fixed.static

    def _gradients(self, cotangents: Sequence[Value]) -> Any:
        of = dict(zip(self.inputs, cotangents))
        gradients = tuple(w.gradient(self.t, of) for w in self.wrt)
        return gradients if self.several else gradients[0]

    # --- reverse ------------------------------------------------------------------------------------

    def value_and_gradient(self, has_aux: bool) -> tuple[Any, Any]:
        """((value or (value, aux)), gradient) of a function that returns one float, or a pair of it and aux."""
        t, types = self.t, self.ref.result_types
        if not types or isinstance(types[0], Array) or not is_float(types[0]):
            structure: Structure = self.ref.value[0].static
            found = "it returns nothing" if not types else \
                f"its result is {structure if any(structure.tags()) else types[0]}"
            raise DifferentiationError(f"{self.what} takes a function that returns one float: {found}", self.loc,
                                       "return a float (sum or mean of an array), or use jacrev or vjp")
        seeds = {0: t.builder.const(1.0, dtype_of(types[0]))}
        results, cotangents = self._reverse(lambda i, results: seeds.get(i))
        leaves, structure = self.finish(results)
        self._check_loss(structure, has_aux)
        return user_value(t, structure, leaves), self._gradients(cotangents)

    def _check_loss(self, structure: Structure, has_aux: bool) -> None:
        if has_aux:
            if not self.differentiated(has_aux).is_leaf:
                raise self._no_pair()
        elif not structure.is_leaf:
            raise DifferentiationError(f"{self.what} takes a function that returns one float, not {structure}",
                                       self.loc, "has_aux=True for a function that returns (value, aux)")

    def differentiated(self, has_aux: bool) -> Structure:
        """The structure of the result that is differentiated; with ``has_aux``, the first of two results."""
        structure = self.structure
        if not has_aux:
            return structure
        if structure.type is not tuple or len(structure.children) != 2:
            raise self._no_pair()
        return structure.children[0]

    def _no_pair(self) -> DifferentiationError:
        return DifferentiationError(f"{self.what} with has_aux takes a function that returns (value, aux)", self.loc)

    def pull_back(self, cotangent: Any, has_aux: bool = False) -> Any:
        """The cotangents of the arguments for a cotangent of the result."""
        t, types, own = self.t, self.ref.result_types, self.differentiated(has_aux)
        given = like(t, own, types, cotangent, f"{self.what}: the cotangent")
        given += [None] * (self.structure.count - own.count)

        def seed(i: int, results: Sequence[Value]) -> Value | None:
            return self._tangent(given[i], types[i], i, results, self.structure) if i < len(given) else None
        _, cotangents = self._reverse(seed, lambda results: self._same_references(results, given, self.structure),
                                      any(self.structure.within()))
        return self._gradients(cotangents)

    @property
    def structure(self) -> Structure:
        """The structure of the result."""
        found: Structure = self.ref.value[0].static
        return found

    def _same_references(self, values: Sequence[Any], given: Sequence[Any], structure: Structure) -> None:
        """Checks that tangents have the same references to nodes and the same union variants as these leaves."""
        for i, (x, dx, fixed) in enumerate(zip(values, given, structure.tags())):
            if fixed and dx is not None:
                same_references(self.t, x, dx, self.what, self._presence(i, values, structure))

    def _presence(self, i: int, values: Sequence[Any], structure: Structure) -> Value | None:
        """The condition that leaf ``i`` of a union exists; None if it always does."""
        t = self.t
        return presence(t.builder, [(t.value(values[tag]), variant) for tag, variant in structure.within()[i]])

    def _reverse(self, seed: Seed, check: Callable[[list[Value]], None] = lambda results: None, asks: bool = False,
                 ) -> tuple[list[Value], list[Value]]:
        """The results, and the cotangents of the inputs; ``seed(i, results)`` is that of result ``i``, or None.

        Cotangents of arrays need the sizes of the results, and those of unions (``asks``) their tags.  Then the forward
        and the reverse sweep are two calls.
        """
        if asks or any(isinstance(self.ref.result_types[i], Array) for i in self.float_results):
            return self._in_two_calls(seed, check)
        t, b = self.t, self.t.builder
        seeds = [seed(i, ()) for i in self.float_results]
        zeros = [b.const(0.0, dtype_of(self.ref.result_types[i])) for i in self.float_results]
        name = t.module.derive(self.ref.name, "vjp", self.positions)
        types = [*self.ref.result_types, *self._input_types()]
        given = [s if s is not None else z for s, z in zip(seeds, zeros)]
        values = b.call_then(name, [*self.ref.params, *given], types)
        n = len(self.ref.result_types)
        check(values[:n])
        return values[:n], values[n:]

    def _in_two_calls(self, seed: Seed, check: Callable[[list[Value]], None]) -> tuple[list[Value], list[Value]]:
        results, tape = self.sweep_forward()
        check(results)
        seeds = []
        for i in self.float_results:
            given = seed(i, results)
            seeds.append(self.t.builder.zeros_like(results[i]) if given is None else given)
        return results, self.sweep_back(seeds, tape)

    def sweep_forward(self) -> tuple[list[Value], Value]:
        """The results of the forward sweep, and the stack for the reverse sweep."""
        name = self.t.module.derive(self.ref.name, "fwd", self.positions)
        *results, tape = self.t.builder.call_then(name, self.ref.params, [*self.ref.result_types, STACK])
        return results, tape

    def sweep_back(self, seeds: Sequence[Value], tape: Value) -> list[Value]:
        """The cotangents of the inputs for cotangents of the float results; may be called repeatedly."""
        return sweep_back(self.t, self.ref.name, self.positions, self.primals(), seeds, tape)

    def primals(self) -> dict[int, Value]:
        """The arguments that the reverse sweep takes, by number: those that the function does not consume."""
        own = self.t.module.functions[self.ref.name].own
        return {i: v for i, v in enumerate(self.ref.params) if i not in own and not isinstance(v.type, Stack)}

    def _input_types(self) -> list[Type]:
        return [v.type for v in self.inputs]

    # --- forward ------------------------------------------------------------------------------------

    def push_forward(self, tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
        """(result, tangent) for one tangent for each argument; with ``has_aux``, (result, tangent, aux)."""
        t, ref, own = self.t, self.ref, self.differentiated(has_aux)
        if len(tangents) != len(self.wrt):
            raise DifferentiationError(f"{self.what}: {len(self.wrt)} arguments and {len(tangents)} tangents", self.loc)
        of: dict[Value, Value] = {}
        for w, tangent in zip(self.wrt, tangents):
            kinds = [t.sym(x).type if isinstance(x, Sym) or is_number(x) else None for x in w.leaves]
            given = like(t, w.structure, kinds, tangent, f"{self.what}: a tangent")
            self._same_references(w.leaves, given, w.structure)
            for i, (x, dx) in enumerate(zip(w.leaves, given)):
                if isinstance(x, Sym) and is_float(x.type):
                    of[x.value] = self._tangent(dx, x.type, i, w.leaves, w.structure)
        name = t.module.derive(ref.name, "jvp", self.positions)
        types = [*ref.result_types, *(ref.result_types[i] for i in self.float_results)]
        values = t.builder.call_then(name, [*ref.params, *(of[v] for v in self.inputs)], types)
        n = len(ref.result_types)
        leaves, structure = self.finish(values[:n])
        dots = dict(zip(self.float_results, values[n:]))
        tangent = [Sym(dots[i], x.weak) if i in dots else x if fixed else None
                   for i, (x, fixed) in enumerate(zip(leaves[:own.count], own.tags()))]
        dot, result = containers.import_(t, pytree.as_gradient(own, tangent)), user_value(t, structure, leaves)
        return (result[0], dot, result[1]) if has_aux else (result, dot)

    def _tangent(self, dx: Any, type: Type, i: int, values: Sequence[Any], structure: Structure) -> Value:
        """A tangent or cotangent converted to the type of leaf ``i`` of ``values`` and checked against its sizes.

        For a scalar leaf that is not part of a union, ``values`` is not read.
        """
        t = self.t
        shape = lengths.sizes(t, t.value(values[i])) if isinstance(type, Array) else []
        return tangent_like(t, dx, type, shape, self.what, self._presence(i, values, structure))


def sweep_back(t: Trace, name: str, wrt: tuple[int, ...], primals: dict[int, Value], seeds: Sequence[Value],
               tape: Value) -> list[Value]:
    """Calls the reverse sweep of ``@name``; ``primals`` are its arguments by number."""
    b = t.builder
    accumulators = [b.as_type(b.zeros_like(v), type=v.type) for v in (primals[i] for i in wrt)
                    if isinstance(v.type, Array)]
    args = [*(primals[i] for i in sorted(primals)), *seeds, *accumulators, tape]
    cotangents: list[Value] = b.call_then(t.module.derive(name, "bwd", wrt), args, [primals[i].type for i in wrt])
    return cotangents
