"""``vjp`` in traced code: the function is called once, and the rest of the computation is a value, the pullback.

A pullback holds the arguments that the reverse sweep reads, and the stack of the forward sweep.  Stacks are immutable,
so a pullback can be called repeatedly, stored, returned and carried through loops.  Two pullbacks of one function for
arguments of the same types have the same type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ... import pytree
from ...ir.graph import Value
from ...ir.types import Array, Type, is_float
from ...pytree import Structure
from ..arrays.rules import lengths
from ..objects import containers
from ..values.lattice import is_number
from ..values.protocol import Trace
from ..values.values import ArrayRef, Sym
from ..values.variant_guards import presence
from .derivative_call import Applied, sweep_back, user_value
from .tangents import like, same_references, tangent_like

KEPT = "a pullback keeps it"


@dataclass(frozen=True)
class Linearisation:
    """The static part of a pullback: the function, and the structures of its arguments and result.

    ``kept``: the parameters that the reverse sweep takes.  ``arguments``: the structure of each argument, and for each
    of its leaves its index in ``wrt`` or None, and True for a Python number.  ``own``: the structure of the
    differentiated result, which is the whole result or its first part.
    """

    function: str
    wrt: tuple[int, ...]
    kept: tuple[int, ...]
    arguments: tuple[tuple[Structure, tuple[tuple[int | None, bool], ...]], ...]
    result: Structure
    result_types: tuple[Type, ...]
    own: Structure


def pull_back_later(t: Trace, fun: Any, primals: Sequence[Any], has_aux: bool) -> tuple[Any, ...]:
    """``(fun(*primals), pullback)``; with ``has_aux``, for a function of two results, ``(out, pullback, aux)``."""
    f = Applied(t, fun, primals, {}, tuple(range(len(primals))), "vjp")
    own = f.differentiated(has_aux)
    results, tape = f.sweep_forward()
    how = Linearisation(f.ref.name, f.positions, tuple(f.primals()), _arguments(f), f.ref.value[0].static,
                        tuple(f.ref.result_types), own)
    sizes = tuple(_number(n) for i in f.float_results if isinstance(results[i].type, Array)
                  for n in lengths.sizes(t, results[i]))
    leaves, structure = f.finish(results)
    primal = tuple(_held(t, v) for v in f.primals().values())
    shape = tuple(_held(t, t.value(x)) for w in f.wrt for x, fixed in zip(w.leaves, w.structure.tags()) if fixed)
    references = tuple(_held(t, r) for r, fixed in zip(results, how.result.tags()) if fixed)
    pullback, value = Pullback(how, primal, Sym(tape), sizes, shape, references), user_value(t, structure, leaves)
    return (value[0], pullback, value[1]) if has_aux else (value, pullback)


def _arguments(f: Applied) -> Any:
    place = {v: k for k, v in enumerate(f.inputs)}
    return tuple((w.structure, tuple((place[x.value], x.weak) if isinstance(x, Sym) and is_float(x.type) else
                                     (None, False) for x in w.leaves)) for w in f.wrt)


def _held(t: Trace, v: Value) -> Any:
    return t.new_array(Sym(v), KEPT) if isinstance(v.type, Array) else Sym(v)


def _number(n: Value) -> Any:
    return n.const if n.const is not None else Sym(n, True)


class Pullback:
    """Maps a cotangent of the result to a tuple of the arguments' cotangents (see ``values.Composite``).

    ``shape``: the leaves of the arguments that their cotangents share with them.  ``references``: such leaves of the
    result, which its cotangent has to match.
    """

    def __init__(self, how: Linearisation, primals: tuple[Any, ...], tape: Any, sizes: tuple[Any, ...],
                 shape: tuple[Any, ...], references: tuple[Any, ...]) -> None:
        self.static, self.primals, self.tape, self.sizes = how, primals, tape, sizes
        self.shape, self.references = shape, references

    def parts(self) -> tuple[Any, ...]:
        return self.primals, self.tape, self.sizes, self.shape, self.references

    def with_parts(self, parts: tuple[Any, ...]) -> Pullback:
        return Pullback(self.static, *parts)

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            raise TypeError(f"a pullback takes one argument, a cotangent of the result, not {len(args) + len(kwargs)}")
        how = self.static
        given = like(t, how.own, how.result_types, args[0], "vjp: the cotangent")
        seeds = self._seeds(t, [*given, *[None] * (how.result.count - how.own.count)])
        primals = {i: t.value(t.read(x) if isinstance(x, ArrayRef) else x) for i, x in zip(how.kept, self.primals)}
        cotangents = sweep_back(t, how.function, how.wrt, primals, seeds, t.value(self.tape))
        shape = iter([t.read(x) if isinstance(x, ArrayRef) else x for x in self.shape])
        return tuple(self._cotangent(t, s, leaves, cotangents, shape) for s, leaves in how.arguments)

    def _seeds(self, t: Trace, given: Sequence[Any]) -> list[Value]:
        """The cotangents of the float results, converted to their types and sizes.

        They are zero for what follows the result: the other values that the function has changed.
        """
        result, sizes, seeds = self.static.result, iter(self.sizes), []
        references = dict(zip((i for i, fixed in enumerate(result.tags()) if fixed), self.references))
        all_of_them = list(zip_longest(given, self.static.result_types, result.within()))
        there = [presence(t.builder, [(t.value(references[tag]), variant) for tag, variant in within or ()])
                 for _, _, within in all_of_them]
        for i, mine in references.items():                   # checked first, since errors about sizes tell less
            if given[i] is not None:
                same_references(t, t.read(mine) if isinstance(mine, ArrayRef) else mine, given[i], "vjp", there[i])
        for i, (x, kind, _) in enumerate(all_of_them):
            if is_float(kind):
                shape = [t.value(next(sizes)) for _ in range(kind.rank if isinstance(kind, Array) else 0)]
                seeds.append(tangent_like(t, x, kind, shape, "vjp", there[i]))
            elif x is not None and i not in references and not (is_number(x) or isinstance(x, (Sym, ArrayRef))):
                raise TypeError(f"vjp: the cotangent holds {x!r} in the place of a number")
        return seeds

    @staticmethod
    def _cotangent(t: Trace, structure: Structure, leaves: Sequence[tuple[int | None, bool]],
                   cotangents: Sequence[Value], shape: Iterator[Any]) -> Any:
        found = [next(shape) if fixed else None if k is None else Sym(cotangents[k], weak)
                 for (k, weak), fixed in zip(leaves, structure.tags())]
        return containers.import_(t, pytree.as_gradient(structure, found))
