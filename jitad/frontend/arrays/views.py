"""Arrays and views: a view reads from and writes through to its base array.

A view is an array object with a list of steps.  Reading applies the steps in order.  Writing applies them too, changes
the innermost value, and then propagates the change back to the base.  If NumPy may return either a view or a copy
(``reshape`` of an array that is not contiguous, ``flip``, ``diagonal``), the result is a frozen stand-in: it cannot be
written, and cannot be read after its base has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.graph import Value
from ...ir.types import Array
from ..objects import containers
from ..values.protocol import Trace
from ..values.values import ArrayObj, ArrayRef, ListObj, Sym
from . import table
from .rules import basic_indexing
from .rules.basic_indexing import Window
from .rules.indexing import index_items
from .rules.lifting import as_stored

MAYBE_VIEW = "NumPy may make it a view or a copy"
COPIES = frozenset((np.positive,))             # listed in VIEWS, but return a copy even if nothing changes


@dataclass(eq=False, slots=True)
class IndexStep:
    """Basic indexing; the window's indices are in bounds.

    ``lead``: the number of indices if all are integers on the leading axes, otherwise -1.
    """

    window: Window
    lead: int = -1

    @property
    def is_element(self) -> bool:
        """True if the selected elements are contiguous."""
        return self.lead >= 0

    @property
    def rank(self) -> int:
        return len(self.window.shown)

    @property
    def static(self) -> Any:
        """The static part of the step; ``moved`` visits its values."""
        return self.window.shown, self.lead, tuple(isinstance(a, Value) for a in self.window.axes)

    def read(self, t: Trace, base: Sym) -> Sym:
        return Sym(basic_indexing.read(t, base.value, self.window))

    def write(self, t: Trace, base: Sym, new: Sym) -> Sym:
        return Sym(basic_indexing.write(t, base.value, self.window, new))

    def moved(self, move: Callable[[Value], Value]) -> IndexStep:
        """The same step in another function, with its values mapped by ``move``."""
        axes = tuple(move(a) if isinstance(a, Value) else (move(a[0]), move(a[1]), move(a[2]))
                     for a in self.window.axes)
        return IndexStep(Window(axes, self.window.shown), self.lead)


def _index_step(t: Trace, a: Sym, items: Sequence[Any]) -> IndexStep:
    assert isinstance(a.type, Array)
    full = basic_indexing.expand(tuple(items), a.type.rank)
    lead = sum(i is not None and not isinstance(i, slice) for i in full)
    simple = not any(i is None for i in full) and all(isinstance(i, slice) == (k >= lead) for k, i in enumerate(full))
    simple = simple and all(i.start is None and i.stop is None and i.step is None for i in full[lead:])
    return IndexStep(basic_indexing.window(t, a.value, full), lead if simple else -1)


@dataclass(eq=False, slots=True)
class TransposeStep:
    perm: tuple[int, ...]
    is_element = False

    @property
    def rank(self) -> int:
        return len(self.perm)

    @property
    def static(self) -> Any:
        return self.perm

    def read(self, t: Trace, base: Sym) -> Sym:
        return Sym(t.builder.transpose(base.value, perm=self.perm))

    def write(self, t: Trace, base: Sym, new: Sym) -> Sym:
        back = tuple(self.perm.index(i) for i in range(len(self.perm)))
        return Sym(t.builder.transpose(new.value, perm=back))

    def moved(self, move: Callable[[Value], Value]) -> TransposeStep:
        return self


@dataclass(eq=False, slots=True)
class ReshapeStep:
    """The elements of a contiguous array in the same order but with other sizes."""

    sizes: tuple[Value, ...]
    is_element = True

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def static(self) -> Any:
        return len(self.sizes)

    def read(self, t: Trace, base: Sym) -> Sym:
        return Sym(t.builder.reshape(base.value, *self.sizes))

    def write(self, t: Trace, base: Sym, new: Sym) -> Sym:
        shaped = t.builder.reshape(new.value, *t.builder.dims(base.value))
        return Sym(t.builder.as_type(shaped, type=base.type))

    def moved(self, move: Callable[[Value], Value]) -> ReshapeStep:
        return ReshapeStep(tuple(map(move, self.sizes)))


# --- reading ----------------------------------------------------------------------------------------

def read(t: Trace, ref: ArrayRef) -> Sym:
    content: Sym = t.contents(ref.obj)
    if not ref.steps:
        return content
    if ref.cache is not None and ref.cache[0].value is content.value:
        return ref.cache[1]
    return _down(t, content, ref.steps)[-1]


def _down(t: Trace, content: Sym, steps: Sequence[Any]) -> list[Sym]:
    """The base array and the result of each step, in order."""
    shown = [content]
    for step in steps:
        shown.append(step.read(t, shown[-1]))
    return shown


def _through(t: Trace, ref: ArrayRef, step: Any) -> Any:
    """Applies one more step: returns a scalar or a view."""
    base = read(t, ref)
    shown = step.read(t, base)
    if not shown.is_array:
        return shown
    return ArrayRef(ref.obj, (*ref.steps, step), (t.contents(ref.obj), shown))


def element(t: Trace, ref: ArrayRef, it: Sym) -> Any:
    """``ref[it]``; ``it`` must be in range."""
    a = read(t, ref)
    assert isinstance(a.type, Array)
    rest = _index_step(t, a, ()).window
    return _through(t, ref, IndexStep(Window((t.value(it), *rest.axes[1:]), tuple(range(1, a.type.rank))), 1))


def getitem(t: Trace, ref: ArrayRef, index: Any) -> Any:
    a = read(t, ref)
    assert isinstance(a.type, Array)
    items = index_items(t, containers.plain(t, index))
    if not all(map(basic_indexing.is_basic, items)):
        found = t.wrap(table.getitem(t, a, containers.plain(t, index)))
        first = next(k for k, i in enumerate(items) if not basic_indexing.is_basic(i))
        leads = not any(i is None or i is Ellipsis or isinstance(i, slice) for i in items[:first])
        return made_from(t, found, table.getitem, (ref, index) if leads else (ref, index, "F"))
    step = _index_step(t, a, items)
    basic_indexing.refuse_zero_d(t, tuple(items), step.window)
    return _through(t, ref, step)


def view(t: Trace, ref: ArrayRef, rule: Callable[..., Any], fun: Any, args: Sequence[Any],
         kwargs: dict[str, Any]) -> Any:
    """The result of a function that may return a view of its argument."""
    a = read(t, ref)
    named = {k: containers.plain(t, v) for k, v in kwargs.items()}
    result = t.native(rule, t, a, *(containers.plain(t, x) for x in args), **named)
    given = (ref, *args, *kwargs.values())
    return _as_view(t, ref, a, result, fun, lambda r: made_from(t, t.new_array(r), rule, given))


def _as_view(t: Trace, ref: ArrayRef, a: Sym, result: Any, fun: Any, made: Callable[[Sym], Any]) -> Any:
    if isinstance(result, (list, tuple)):
        items = [_as_view(t, ref, a, r, fun, made) for r in result]
        return t.new_list(items) if isinstance(result, list) else tuple(items)
    if not isinstance(result, Sym) or not result.is_array:
        return result
    if result.value is a.value and not (fun is np.ascontiguousarray and is_scattered(ref)):
        return made(result) if fun in COPIES else ref
    if result.scalar != a.scalar:
        return made(result)
    op = result.value.op
    direct = op if op is not None and op.operands and op.operands[0] is a.value else None
    if direct is not None and direct.name == "transpose":
        step: Any = TransposeStep(tuple(direct.attrs["perm"]))
    elif direct is not None and direct.name == "reshape" and not is_scattered(ref):
        step = ReshapeStep(tuple(direct.operands[1:]))
    elif direct is not None and direct.name == "copy":
        return made(result)
    else:
        frozen = t.new_array(result, MAYBE_VIEW)
        frozen.obj.scattered = is_scattered(ref) or fun in (np.broadcast_to, np.broadcast_arrays)
        frozen.obj.maybe = ((ref.obj, t.contents(ref.obj)),)
        return frozen
    return ArrayRef(ref.obj, (*ref.steps, step), (t.contents(ref.obj), result))


# --- memory layout ----------------------------------------------------------------------------------

def is_scattered(ref: ArrayRef) -> bool:
    """True if ``reshape`` of the array may copy in NumPy, because it may not be contiguous."""
    return ref.obj.scattered or not all(s.is_element for s in ref.steps)


def made_from(t: Trace, result: Any, rule: Any, args: Sequence[Any]) -> Any:
    """Returns ``result``, which a rule made from ``args``; marks it if NumPy would not lay it out in C order.

    Most results in NumPy have the memory layout of their operands.  An argument "C", "F", "A" or "K" is taken to be
    ``order=``, since no other parameter has these values.
    """
    if isinstance(result, ArrayRef) and (rank := t.contents(result.obj).type.rank) > 1:
        order = next((v for v in args if isinstance(v, str) and v in ("C", "F", "A", "K")), "")
        of_many = rule is table.OPERATORS["matmul"] and rank > 3          # keeps the layout of the batch axes
        if not order and rule in table.IN_ORDER and not of_many:
            order = "C"
        if order == "F" or order != "C" and any(_is_permuted(t, v) for v in args):
            result.obj.scattered = True
    return result


def _is_permuted(t: Trace, v: Any) -> bool:
    if isinstance(v, ListObj):
        v = t.contents(v)
    if isinstance(v, (tuple, list)):
        return any(_is_permuted(t, x) for x in v)
    return isinstance(v, ArrayRef) and (v.obj.scattered or any(type(s) is TransposeStep for s in v.steps))


# --- writing ----------------------------------------------------------------------------------------

def check_writable(t: Trace, obj: ArrayObj, instead: str = "") -> None:
    """Refuses a write to a readonly array; ``instead`` is a hint for another way to write it."""
    if obj.readonly:
        t.unsupported(f"writes into an array that may not be written: {obj.readonly}",
                      f"{instead}write into a copy: `b = a.copy()`")


def setitem(t: Trace, ref: ArrayRef, index: Any, value: Any) -> None:
    check_writable(t, ref.obj)
    new = containers.plain(t, value)
    shown = _down(t, t.contents(ref.obj), ref.steps)
    items = index_items(t, containers.plain(t, index))
    innermost = shown[-1]
    assert isinstance(innermost.type, Array)
    steps = list(ref.steps)
    if all(map(basic_indexing.is_basic, items)):
        step = _index_step(t, innermost, items)
        while steps and (merged := _merge(steps[-1], step)) is not None:
            step = merged
            steps.pop()
        changed = step.write(t, shown[len(steps)], as_stored(t, new, innermost.type.dtype))
    else:
        changed = table.setitem(t, innermost, containers.plain(t, index), new)
    _up(t, ref.obj, steps, shown, changed)


def _merge(outer: Any, inner: IndexStep) -> IndexStep | None:
    """Merges ``a[i][j]`` into ``a[i, j]``, so that a store writes one element instead of a row; None if impossible."""
    if not isinstance(outer, IndexStep) or not outer.is_element:
        return None
    axes = (*outer.window.axes[:outer.lead], *inner.window.axes)
    shown = tuple(s if s is None else s + outer.lead for s in inner.window.shown)
    return IndexStep(Window(axes, shown), inner.lead + outer.lead if inner.is_element else -1)


def store_all(t: Trace, ref: ArrayRef, new: Sym) -> None:
    """``ref[...] = new`` for a value of the same type."""
    check_writable(t, ref.obj)
    _up(t, ref.obj, ref.steps, _down(t, t.contents(ref.obj), ref.steps), new)


def _up(t: Trace, obj: ArrayObj, steps: Sequence[Any], shown: Sequence[Sym], changed: Sym) -> None:
    for step, base in zip(reversed(steps), reversed(shown[:len(steps)])):
        changed = step.write(t, base, changed)
    t.state[obj] = changed
