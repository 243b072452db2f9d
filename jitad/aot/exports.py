"""The exports of a library: a function for one signature, and its derivatives, as programs with C interfaces."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import compiler, pipeline
from ..calling.compiled import lock
from ..calling.dispatch import Dispatcher
from ..calling.signature import Spec, signature
from ..compiler_threads import with_room
from ..errors import DifferentiationError, UnsupportedError
from ..frontend.callables.traceable import positional
from ..frontend.captured.leaves import Leaf as Parameter
from ..frontend.captured.options import Options
from ..frontend.columns.gc_pause import no_collection
from ..frontend.trace.trace_program import Traced
from ..frontend.values.lattice import UNBOUND
from ..ir.types import Array, Scalar
from ..lowering.aot import interface
from ..lowering.aot.interface import Interface, Leaf, Struct, Tree
from ..lowering.aot.library import Program
from ..pytree import NONE, Structure, holds_packed
from . import derivatives
from .annotations import Argument, arguments
from .names import c_name, distinct

_ABOUT = {"": "The result of", "grad": "The value and the gradient of", "jacobian": "The Jacobian of",
          "jvp": "The value of, and its derivative along the tangents:",
          "vjp": "The value of, and the cotangents of its arguments for one of the value:",
          "hvp": "The product of the Hessian with the tangents:"}
MODES = ("grad", "jvp", "vjp", "hvp", "jacobian")


@dataclass(frozen=True)
class Export:
    """A function of a library, made by ``aot.export``.

    ``wrt``: for each mode of ``MODES`` that is exported, True or the arguments to differentiate with respect to.
    """

    dispatcher: Dispatcher
    signature: Any
    name: str
    wrt: dict[str, Any]


def make(dispatcher: Dispatcher, signature: Any = None, name: str | None = None, **wrt: Any) -> Export:
    """See ``aot.export``."""
    given = dispatcher.target.__name__
    if dispatcher.parameters.static:
        raise UnsupportedError(f"{given} has static arguments, which are no part of a C function",
                               hint="export a function that passes them: lambda x: f(x, 3)")
    label = c_name(name if name is not None else given)
    return Export(dispatcher, signature, label, {mode: value for mode, value in wrt.items() if value is not False})


def programs(export: Export) -> Iterator[Program]:
    """The programs of an export after the pipeline: the function first, then its derivatives."""
    fun, options = export.dispatcher.fun, replace(export.dispatcher.options, parallel=False)
    given = arguments(fun, export.signature, export.name)
    writer = _Programs(export.name, fun, options, given)
    yield writer.value()
    for mode in MODES:
        if mode in export.wrt:
            yield getattr(writer, mode)(export.wrt[mode])


class _Programs:
    def __init__(self, name: str, fun: Callable[..., Any], options: Options, given: Sequence[Argument]) -> None:
        self.name, self.fun, self.options, self.given = name, fun, options, list(given)
        self.trees = [a.tree for a in given]
        self.results: list[Tree] = []
        code = getattr(inspect.unwrap(fun), "__code__", None)
        place = "" if code is None else f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
        self.described = f"{getattr(fun, '__name__', name)}{place}."

    # --- programs -----------------------------------------------------------------------------------

    def value(self) -> Program:
        traced = self._traced(self.fun, self.given)
        self.results = _results(traced, self.name)
        return self._program("", traced, self.trees, self.results)

    def grad(self, wrt: Any) -> Program:
        positions, argnums = self._positions(wrt)
        fun = derivatives.gradient(self.fun, argnums)
        traced = self._traced(fun, self.given)
        value = Leaf("value", self._scalar().type)
        results = [value, *self._like(positions, "grad")]
        return self._program("grad", traced, self.trees, results, self._unused(positions))

    def jvp(self, wrt: Any) -> Program:
        positions, _ = self._positions(wrt)
        given = [*self.given, *(self._renamed(i, "tangent") for i in positions)]
        fun = derivatives.pushforward(self.fun, positions, len(self.given))
        value = _renamed(self._single(), "value")
        results = [value, _renamed(value, "tangent")]
        return self._program("jvp", self._traced(fun, given), [a.tree for a in given], results)

    def vjp(self, wrt: Any) -> Program:
        positions, _ = self._positions(wrt)
        value = _renamed(self._single(), "value")
        fun = derivatives.pullback(self.fun, positions, len(self.given))
        given = [*self.given, _argument_like(value, "cotangent")]
        results = [value, *self._like(positions, "grad")]
        return self._program("vjp", self._traced(fun, given), [a.tree for a in given], results,
                             self._unused(positions))

    def hvp(self, wrt: Any) -> Program:
        positions, _ = self._positions(wrt)
        self._scalar()
        given = [*self.given, *(self._renamed(i, "tangent") for i in positions)]
        fun = derivatives.hessian_product(self.fun, positions, len(self.given))
        return self._program("hvp", self._traced(fun, given), [a.tree for a in given],
                             self._like(positions, "product"))

    def jacobian(self, wrt: Any) -> Program:
        positions, argnums = self._positions(wrt)
        value = self._single()
        fun = derivatives.jacobian(self.fun, argnums)
        results = [self._jacobian(value, i) for i in positions]
        return self._program("jacobian", self._traced(fun, self.given), self.trees, results)

    # --- their parts --------------------------------------------------------------------------------

    def _traced(self, fun: Callable[..., Any], given: Sequence[Argument]) -> Traced:
        """The program for these arguments, after the pipeline."""
        def run() -> Traced:
            with lock, no_collection():
                sig, _ = signature(tuple(a.spec for a in given), {}, frozenset(), False, long=False)
                found = compiler.traced(fun, sig, self.options)
                found.module.fast_gathers = found.module.fast_roots = False    # one program serves all processors
                pipeline.run(found.module, [found.root])
                return found
        traced: Traced = with_room(run)
        return traced

    def _program(self, suffix: str, traced: Traced, args: Sequence[Tree], results: Sequence[Tree],
                 unused: frozenset[int] = frozenset()) -> Program:
        name = f"{self.name}_{suffix}" if suffix else self.name
        made = Interface(name, tuple(args), tuple(results), f"{_ABOUT[suffix]} {self.described}", unused)
        distinct(interface.names(made.parts()), name)
        _agree(name, [t for i, t in enumerate(traced.out_types) if i not in unused], results)
        flush = compiler.flushes(self.options, traced.module, traced.root)
        values = list(zip([leaf.type for leaf in traced.captured_leaves], traced.consts))
        return Program(traced.module, traced.root, made, values, compiler.lowering_options(self.options, flush))

    def _positions(self, wrt: Any) -> tuple[tuple[int, ...], Any]:
        """The positions of the arguments to differentiate with respect to, and the ``argnums`` that say so."""
        known = positional(self.fun)
        if wrt is True:
            wrt = 0
        chosen = wrt if isinstance(wrt, (tuple, list)) else (wrt,)
        found = []
        for key in chosen:
            at = known.index(key) if isinstance(key, str) and key in known else key
            if not isinstance(at, int) or isinstance(at, bool) or not -len(self.given) <= at < len(self.given):
                raise DifferentiationError(f"{self.name} has no argument {key!r} to differentiate with respect to: "
                                           f"there are {', '.join(known)}")
            found.append(at % len(self.given))
        for i in found:
            if not any(leaf.dtype.is_float for leaf in interface.leaves(self.trees[i])):
                raise DifferentiationError(f"argument {self.trees[i].name} of {self.name} holds no floats")
        return tuple(found), tuple(found) if isinstance(wrt, (tuple, list)) else found[0]

    def _single(self) -> Leaf:
        """The result, which must be one float or one array of floats."""
        if len(self.results) == 1 and isinstance(self.results[0], Leaf) and self.results[0].dtype.is_float:
            return self.results[0]
        raise DifferentiationError(f"{self.name} must return one number or array of floats to have this derivative")

    def _scalar(self) -> Leaf:
        found = self._single()
        if found.is_array:
            raise DifferentiationError(f"{self.name} must return one float to have a gradient, not an array")
        return found

    def _like(self, positions: Sequence[int], prefix: str) -> list[Tree]:
        """The results that have the structure of arguments; leaves that are not floats are left out."""
        first, made = 0, dict[int, Tree]()
        for i, tree in enumerate(self.trees):
            made[i] = _float_part(tree, f"{prefix}_{tree.name}", f"{self.name}_{prefix}_{tree.name}", first)
            first += len(list(interface.leaves(tree)))
        return [made[i] for i in positions]

    def _unused(self, positions: Sequence[int]) -> frozenset[int]:
        """The results, by number, that only repeat the structure of trees; the value is the first result."""
        returned = [leaf for i in positions for leaf in interface.leaves(self.trees[i])
                    if leaf.shared or leaf.dtype.is_float]
        return frozenset(k for k, leaf in enumerate(returned, 1) if leaf.shared)

    def _renamed(self, position: int, prefix: str) -> Argument:
        """Another argument of the same type; leaves that are not floats cannot have a tangent."""
        given = self.given[position]
        if not all(leaf.dtype.is_float for leaf in interface.leaves(given.tree)):
            raise UnsupportedError(f"argument {given.tree.name} of {self.name} holds numbers without tangents",
                                   hint="pass them as an argument of their own")
        first = sum(len(list(interface.leaves(tree))) for tree in self.trees[:position])
        name = f"{prefix}_{given.tree.name}"
        return Argument(_float_part(given.tree, name, f"{self.name}_{name}", first), given.spec)

    def _jacobian(self, value: Leaf, position: int) -> Tree:
        of = self.trees[position]
        if not isinstance(of, Leaf):
            raise UnsupportedError(f"the Jacobian of {self.name} with respect to the struct {of.name}",
                                   hint="pass its arrays as arguments of their own")
        dims = (*value.dims, *of.dims)
        name = f"jacobian_{of.name}"
        if not dims:
            return Leaf(name, value.type)
        known = tuple(d if isinstance(d, int) else None for d in dims)
        return Leaf(name, Array(value.dtype, known), known)


# --- trees ------------------------------------------------------------------------------------------

def _renamed(tree: Any, name: str) -> Any:
    return replace(tree, name=name)


def _float_part(tree: Tree, name: str, tag: str, first: int) -> Any:
    """The floats of an argument whose first leaf has this number, as a result with the sizes of the argument."""
    if isinstance(tree, Leaf):
        return Leaf(name, tree.type, tree.dims, first if tree.is_array else None)
    fields = []
    for field in tree.fields:
        count = len(list(interface.leaves(field)))
        if any(leaf.dtype.is_float for leaf in interface.leaves(field)):
            fields.append(_float_part(field, field.name, f"{tag}_{field.name}", first))
        first += count
    return Struct(name, f"{tag}_t", tuple(fields))


def _argument_like(leaf: Leaf, name: str) -> Argument:
    weak = isinstance(leaf.type, Scalar) and leaf.type.of_python
    return Argument(replace(leaf, name=name), Spec(Parameter(leaf.type, weak)))


def _results(traced: Traced, name: str) -> list[Tree]:
    """The results of a function: one parameter, or one for each element of a tuple."""
    structure, kinds = traced.out_structure, iter(traced.out_types)
    if holds_packed(structure):
        raise UnsupportedError(f"{name} returns a tree, which has no C type", hint="return its columns as arrays")
    for value in traced.out_static:
        if value is not UNBOUND:
            raise UnsupportedError(f"{name} returns {value!r}, which has no C type")
    if structure == NONE:
        return []
    if structure.type is tuple:
        return [tree for i, child in enumerate(structure.children)
                if (tree := _result(child, kinds, f"result_{i}", f"{name}_result_{i}", name)) is not None]
    tree = _result(structure, kinds, "result", f"{name}_result", name)
    return [tree] if tree is not None else []


def _result(structure: Structure, kinds: Iterator[Any], label: str, tag: str, export: str) -> Tree | None:
    if structure.is_leaf:
        kind = next(kinds)
        return Leaf(label, kind, kind.dims if isinstance(kind, Array) else ())
    if structure.type is None or structure == NONE:
        return None
    named = isinstance(structure.static, tuple) and all(isinstance(n, str) for n in structure.static)
    if structure.type is str or not (named or issubclass(structure.type, (tuple, list))):
        raise UnsupportedError(f"{export} returns {structure!r}, which has no C type",
                               hint="return numbers, arrays, tuples, NamedTuples or flat dataclasses")
    fields = structure.static if named else [f"item_{i}" for i in range(len(structure.children))]
    made = [_result(child, kinds, c_name(n), f"{tag}_{n}", export) for n, child in zip(fields, structure.children)]
    return Struct(label, f"{tag}_t", tuple(tree for tree in made if tree is not None))


def _agree(name: str, types: Sequence[Any], results: Sequence[Tree]) -> None:
    """Test that the trees of the results have the types of the program's results, in order."""
    have = [leaf for tree in results for leaf in interface.leaves(tree)]
    ranks = [(leaf.dtype, len(leaf.dims)) for leaf in have]
    found = [(t.dtype, t.rank) if isinstance(t, Array) else (t, 0) for t in types]
    if ranks != found:
        raise UnsupportedError(f"{name} has results of types that its C function does not: {types}")
