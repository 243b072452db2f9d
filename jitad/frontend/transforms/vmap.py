"""``vmap``: maps a function over an axis of its arguments.

It is a loop over that axis.  Each iteration reads element ``i`` of the arguments, calls the function, and stores its
results as element ``i`` of arrays that are made before the loop.  The optimiser treats it like any loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import pytree
from ...ir.graph import Value
from ...ir.types import I64, Array, dims_of
from ...pytree import Structure
from ..arrays.rules import lengths, promotion
from ..flow import stacking
from ..objects import containers
from ..trees.nodes import ENTER
from ..values.lattice import is_number
from ..values.protocol import Trace
from ..values.values import Sym
from .argnums import parameter_names
from .axes import Axes, Axis, spread
from .dependence import dependent_results
from .derivative_call import FLATTEN, leaves_of, outputs_of, user_value
from .result_shapes import Given, result_sizes

ELEMENT = "it is an argument of a function that vmap maps"


class _Argument:
    """One argument: its leaves, with the mapped axis of each moved to the front."""

    def __init__(self, t: Trace, v: Any, axes: Axes, name: str) -> None:
        self.value, self.name, self.mapped = v, name, axes.mapped
        if not self.mapped:
            return
        leaves, self.structure = leaves_of(t, v)
        if pytree.holds_columns(self.structure):
            t.unsupported(f"vmap over argument {name}, which has a long list in it", "use an array")
        places = spread(axes, self.structure, "in_axes")
        self.leaves = [x if k is None else _to_front(t, x, k, name) for x, k in zip(leaves, places)]
        self.over = [k is not None for k in places]

    def element(self, t: Trace, it: Value, fronts: dict[Value, Value]) -> Any:
        """The argument for one iteration; adds to ``fronts`` the array that each element is read from."""
        if not self.mapped:
            return self.value
        leaves = []
        for x, over in zip(self.leaves, self.over):
            if over:
                whole, x = x, Sym(t.builder.emit_op("get", [x.value, it]).result)
                fronts[x.value] = whole.value
            leaves.append(t.new_array(x, ELEMENT) if isinstance(x, Sym) and x.is_array else x)
        return containers.import_(t, pytree.unflatten(self.structure, leaves))


def _to_front(t: Trace, x: Any, axis: int, name: str) -> Sym:
    rank = promotion.rank(x.value) if isinstance(x, Sym) else 0
    if not isinstance(x, Sym) and not is_number(x):
        raise TypeError(f"vmap: argument {name} has axis {axis} mapped, and holds {containers.describe(x)}")
    if not -rank <= axis < rank:
        raise ValueError(f"vmap: axis {axis} of argument {name}, which has {rank} axes" if rank else
                         f"vmap: argument {name} is mapped over axis {axis}, and holds a number: in_axes=None for it")
    return Sym(_moved(t, x.value, axis % rank, 0))


def _moved(t: Trace, a: Value, axis: int, to: int) -> Value:
    """``np.moveaxis(a, axis, to)``."""
    perm = [k for k in range(promotion.rank(a)) if k != axis]
    perm.insert(to, axis)
    out: Value = t.builder.transpose(a, perm=tuple(perm)) if perm != sorted(perm) else a
    return out


class Mapped:
    """``fun`` mapped over ``args`` and ``kwargs``; ``size``: the size of the mapped axes, if given."""

    def __init__(self, t: Trace, fun: Any, in_axes: Axes, args: Sequence[Any], kwargs: dict[str, Any],
                 size: Any = None) -> None:
        self.t, self.fun = t, fun
        names = parameter_names(fun)
        each = _for_each(in_axes, len(args))
        self.args = [_Argument(t, v, a, names[i] if i < len(names) else str(i))
                     for i, (v, a) in enumerate(zip(args, each))]
        self.kwargs = {k: _Argument(t, v, FIRST, k) for k, v in kwargs.items()}
        self.n = self._count(size)

    def _count(self, size: Any) -> Value:
        """The common size of the mapped axes; emits checks that they agree."""
        t = self.t
        given = None if size is None else t.value(size, I64)
        found = [(lengths.size(t, x.value, 0), a.name) for a in (*self.args, *self.kwargs.values()) if a.mapped
                 for x, over in zip(a.leaves, a.over) if over]
        if not found and given is None:
            raise ValueError("vmap: no argument has an axis to map: in_axes is None for all of them, and axis_size is "
                             "not given")
        if given is not None:
            t.check(t.builder.ge(given, 0), "ValueError", "vmap: axis_size is {}", given)
            for n, name in found:
                if (same := lengths.equal_sizes(t, given, n)) is not None:
                    t.check(same, "ValueError", f"vmap: axis_size is {{}}, and the mapped axis of {name} has size {{}}",
                            given, n)
            return given
        n, first = found[0]
        for other, name in found[1:]:
            same = lengths.equal_sizes(t, n, other)
            if same is not None:
                t.check(same, "ValueError", f"vmap: the mapped axis of {first} has size {{}}, that of {name} has "
                                            "size {}", n, other)
        return n

    # --- the loop -----------------------------------------------------------------------------------

    def run(self, out_axes: Axes) -> Any:
        t = self.t
        stacks = stacking.stacked(t, self.n, self._element, lambda results: self._start(out_axes, results),
                                  "vmap over nothing of a function that does not return")
        structure: Structure = self.ref.value[0].static
        leaves = [self._placed(Sym(s), axis) for s, axis in zip(stacks, self.places)]
        return user_value(t, structure, leaves)

    def _placed(self, stack: Sym, axis: Axis) -> Any:
        if axis is None or axis in (0, -promotion.rank(stack.value)):
            return stack
        return Sym(_moved(self.t, stack.value, 0, axis % promotion.rank(stack.value)))

    def _element(self, it: Value) -> Sequence[Value]:
        t, self.fronts = self.t, dict[Value, Value]()
        args = tuple(a.element(t, it, self.fronts) for a in self.args)
        kwargs = t.new_dict({k: a.element(t, it, self.fronts) for k, a in self.kwargs.items()})
        self.ref = t.call_traced(outputs_of(self.fun), (ENTER, FLATTEN, self.fun, args, kwargs), {})
        if self.ref.mutates:
            t.unsupported("vmap of a function that changes what is not its own: the order of the elements has no "
                          "meaning", "return the values instead, or write the loop")
        structure: Structure = self.ref.value[0].static
        if pytree.holds_columns(structure):
            t.unsupported("vmap of a function that returns a long list", "return an array")
        if pytree.holds_packed(structure) or pytree.holds_choice(structure):
            what = "trees" if pytree.holds_packed(structure) else "values of another kind for some elements"
            t.unsupported(f"vmap of a function that returns {what}: they do not stack",
                          "return numbers and arrays, of the same structure for all elements")
        out: Sequence[Value] = t.builder.call_then(self.ref.name, self.ref.params, self.ref.result_types)
        self._same_sizes(out)
        return out

    def _same_sizes(self, results: Sequence[Value]) -> None:
        """Records the result sizes that may differ between elements; ``_check`` emits the checks later."""
        t, b = self.t, self.t.builder
        self.checks = [(i, k, b.dim(v, axis=k)) for i, v in enumerate(results) for k in range(promotion.rank(v))
                       if dims_of(v.type)[k] is None]
        self.end = t.here()

    def _start(self, out_axes: Axes, results: Sequence[Value]) -> list[Value]:
        """Makes the arrays for the results before the loop, and emits the checks of the results' sizes."""
        t = self.t
        structure: Structure = self.ref.value[0].static
        self.places = self._out_places(out_axes, structure, results)
        sizes = self._sizes()
        return [stacking.room(t, self.n, v, sizes[i]) if place is not None else self._alone(v, sizes[i])
                for i, (v, place) in enumerate(zip(results, self.places))]

    def _sizes(self) -> list[list[Value]]:
        """The sizes of each result: static, computed from the arguments, or else those for the first element."""
        t, b, ref = self.t, self.t.builder, self.ref
        def first() -> list[Value]:
            t.check(b.gt(self.n, 0), "ValueError", "vmap over 0 elements: the sizes of the results depend on them")
            return [b.get(self.fronts[v], b.const(0)) if v in self.fronts else v for v in ref.params]

        args = [Given(b, self.fronts[v], 1) if v in self.fronts else Given(b, v) for v in ref.params]
        sizes, unknown = result_sizes(t, ref, args, first)
        self._check(unknown, sizes)
        return sizes

    def _check(self, places: Sequence[tuple[int, int]], sizes: Sequence[Sequence[Value]]) -> None:
        """Emits checks in the loop that each element's results have the sizes of the first element's."""
        t = self.t
        with t.on(self.end):
            for i, k, size in self.checks:
                if (i, k) in places:
                    t.check(t.builder.eq(size, sizes[i][k]), "ValueError", "vmap: a result has size {} for one "
                            "element and {} for another", sizes[i][k], size)

    def _alone(self, v: Value, sizes: Sequence[Value]) -> Value:
        """The initial value of a result that all elements share."""
        b = self.t.builder
        return b.zeros_like(v) if not isinstance(v.type, Array) else \
            b.emit("fill", b.const(0, v.type.dtype), *sizes)

    def _out_places(self, out_axes: Axes, structure: Structure, results: Sequence[Value]) -> list[Axis]:
        t, places = self.t, spread(out_axes, structure, "out_axes")
        for v, k in zip(results, places):
            rank = promotion.rank(v) + 1
            if k is not None and not -rank <= k < rank:
                raise ValueError(f"vmap: out_axes has axis {k} for a result that has {rank} axes, the mapped one among "
                                 "them")
        if None in places:
            mapped = [i for i, v in enumerate(self.ref.params) if v in self.fronts]
            depends = dependent_results(t.module, self.ref.name, mapped)
            if any(k is None and i in depends for i, k in enumerate(places)):
                t.unsupported("vmap: out_axes is None for a result that depends on the element",
                              "give it an axis, out_axes=0, and take what you need")
            t.check(t.builder.gt(self.n, 0), "ValueError", "vmap over 0 elements: a result without an axis has no "
                                                           "value")
        return places


FIRST = Axes(pytree.LEAF, (0,))


def _for_each(in_axes: Axes, n: int) -> list[Axes]:
    """The ``in_axes`` of each positional argument."""
    if in_axes.structure.is_leaf:
        return [in_axes] * n
    each = list(in_axes.children())
    if in_axes.structure.type not in (tuple, list) or len(each) != n:
        raise ValueError(f"vmap: in_axes {in_axes.structure} for {n} arguments: it takes an axis for each, in a tuple")
    return each
