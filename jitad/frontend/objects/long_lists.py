"""Long lists in traced code (``columns``): their length is a run-time value, and iteration over one is a loop.

A long list cannot be changed, and its elements cannot be inspected while tracing.  Operations that need either are
refused; ``dispatch`` then traces the program with each element as a separate argument, as for short lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from ... import pytree
from ...errors import UnsupportedError
from ..columns.list_columns import LONG, Cell, Columns, Kind, kind
from ..values.active import Active
from ..values.closures import WALKS, BoundMethod
from ..values.growing import Growing
from ..values.lattice import UNBOUND, is_scalar, same, scalar_type
from ..values.protocol import Trace
from ..values.union_merge import FACTS
from ..values.values import ELEMENT, ArrayRef, DictObj, Instance, ListObj, Maybe, Obj, Slot, Sym
from . import containers, iteration
from .list_elements import is_row, need_rows

SHORTER = f"an array, `np.array(xs)`, or a list of at most {LONG} elements as argument"


class RunTimeList(Active):
    """What every list of run-time length answers alike that is no variable of the program's."""

    __slots__ = ()
    counted = True

    def count(self, t: Trace) -> Any:
        """The number of elements."""
        raise NotImplementedError

    def method(self, t: Trace, name: str) -> Any:
        """A method that lists have."""
        raise NotImplementedError

    def truth(self, t: Trace) -> Any:
        return t.truth(t.compare("gt", self.count(t), 0))

    def is_a(self, t: Trace, cls: Any) -> Any:
        return issubclass(list, cls)

    def type_of(self, t: Trace) -> Any:
        return list

    def has(self, t: Trace, name: str) -> Any:
        return not name.startswith("__") and hasattr(list, name)

    def attribute(self, t: Trace, name: str) -> Any:
        if not self.has(t, name):
            raise AttributeError(f"'list' object has no attribute '{name}'")
        return self.method(t, name)

    def assign(self, t: Trace, name: str, value: Any) -> None:
        raise AttributeError(f"'list' object has no attribute '{name}'")


class LongList(RunTimeList):
    """An immutable list of elements of one kind; its parts are its columns."""

    __slots__ = ("kind", "columns")

    def __init__(self, kind: Kind, columns: Sequence[Any]) -> None:
        self.kind, self.columns = kind, tuple(columns)

    @property
    def static(self) -> Kind:
        return self.kind

    def parts(self) -> tuple[Any, ...]:
        return self.columns

    def with_parts(self, parts: tuple[Any, ...]) -> LongList:
        return LongList(self.kind, parts)

    def describe(self) -> str:
        return "a list of a length that is only known at run time"

    def refused(self, t: Trace, what: str) -> NoReturn:
        t.unsupported(f"{what} {self.describe()}", SHORTER)

    # --- elements -----------------------------------------------------------------------------------

    def count(self, t: Trace) -> Any:
        return Sym(t.builder.dim(t.read(self.columns[0]).value, axis=0), True)

    def element(self, t: Trace, it: Any) -> Any:
        leaves = [_leaf(t, t.element(c, it), cell) for c, cell in zip(self.columns, self.kind.cells)]
        if self.kind.element.is_leaf:
            return leaves[0]
        return _made(t, pytree.unflatten(self.kind.element, leaves))

    def item(self, t: Trace, index: Any) -> Any:
        if isinstance(index, slice):
            return LongList(self.kind, [t.getitem(c, index) for c in self.columns])
        return self.element(t, place_among(t, self.count(t), index, "list index out of range"))

    def holds_numbers(self) -> bool:
        return self.kind.element.is_leaf and not self.kind.cells[0].array

    def sorted(self, t: Trace, reverse: bool) -> LongList:
        column = t.call(np.sort, self.columns[0])
        return LongList(self.kind, [t.getitem(column, slice(None, None, -1)) if reverse else column])

    # --- queries of the trace -----------------------------------------------------------------------

    def compare(self, t: Trace, op: str, other: Any) -> Any:
        if op in ("is", "is not") and not isinstance(other, LongList):
            return op == "is not"
        if is_array(other):
            return t.compare(op, as_array(t, self), other)
        if op in ("eq", "ne") and not isinstance(other, (LongList, ListObj, list)):
            return op == "ne"
        return self.refused(t, f"`{_SIGNS.get(op, op)}` of")

    def method(self, t: Trace, name: str) -> Any:
        return BoundMethod(_copied, self) if name == "copy" else self.refused(t, f"the method `{name}` of")

    def plain(self, t: Trace) -> Any:
        return t.read(as_array(t, self))

    def exported(self, t: Trace) -> Columns:
        return Columns(self.kind, self.columns)


def place_among(t: Trace, n: Any, index: Any, message: str) -> Sym:
    """The index of one of ``n`` elements, counted from the end if it is negative; an IndexError if there is none."""
    if not is_scalar(index) or scalar_type(index)[0].is_float:
        raise TypeError(f"list indices must be integers or slices, not {containers.describe(index)}")
    if isinstance(index, int):
        i = t.binary("add", n, index) if index < 0 else index
    else:
        i = t.choose_value(t.truth(t.compare("lt", index, 0)), t.binary("add", index, n), index)
    inside = t.both("and", t.truth(t.compare("ge", i, 0)), t.truth(t.compare("lt", i, n)))
    t.check(inside, "IndexError", message)
    return t.sym(i)


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _copied(xs: Any) -> Any:
    """``xs.copy()`` of an immutable list, which is the list itself."""
    return xs


def _leaf(t: Trace, x: Any, cell: Cell) -> Any:
    return Sym(x.value, cell.weak) if cell.weak is not False and type(x) is Sym else x


def _made(t: Trace, v: Any) -> Any:
    """An element as a value of the trace; its parts are readonly too."""
    if isinstance(v, Columns):
        return LongList(v.kind, v.columns)
    if v is None or isinstance(v, str) or not pytree.is_container(v):
        return v
    static, children = pytree.children(v)
    new = [_made(t, x) for x in children]
    if isinstance(v, tuple):
        return pytree.build(type(v), static, new)
    made: Obj
    if isinstance(v, list):
        made = t.new_list(new)
    elif isinstance(v, dict):
        made = t.new_dict(dict(zip(static, new)))
    else:
        made = Instance(type(v))
        t.state[made] = dict(zip(static, new))
    made.readonly = ELEMENT
    return made


# --- constants --------------------------------------------------------------------------------------

def constant(t: Trace, v: Any) -> Any:
    """A long constant list as columns, if a loop iterates over it or a run-time value indexes it."""
    if isinstance(v, WALKS):
        return v.with_parts(tuple(constant(t, x) for x in v.parts()))
    if type(v) is not list or len(v) <= LONG or not t.options.long_lists:
        return v
    if id(v) not in t.session.long_lists:
        t.session.long_lists[id(v)] = v, pytree.columns_of(v)
    found = t.session.long_lists[id(v)][1]
    return v if found is None else LongList(found.kind, [t.lift(c) for c in found.columns])


# --- comprehensions ---------------------------------------------------------------------------------

def is_walked(t: Trace, v: Any) -> bool:
    """True if a list of what ``v`` iterates over is a long list: it is as long as one, or of unknown length."""
    if not iteration.is_counted(v):
        return False
    long = isinstance(v, LongList) or isinstance(v, WALKS) and any(is_walked(t, x) for x in v.parts())
    return long or iteration.known_count(t, v) is None


def listed(items: Any) -> Any:
    """``list(items)``; it is traced."""
    return [x for x in items]


_IN_LOOPS = "_jitad_in_loops"


def in_loops(t: Trace, message: str, hint: str) -> UnsupportedError:
    """An error of a list comprehension that is traced as loops which append, if it can be."""
    error = UnsupportedError(message, t.loc, hint)
    setattr(error, _IN_LOOPS, True)
    return error


def goes_in_loops(error: UnsupportedError) -> bool:
    return hasattr(error, _IN_LOOPS)


class Made:
    """A flattened element of a comprehension.

    The element may refer only to objects of its own: numbers, and tuples and lists of numbers that are made with it.
    Evaluating it must not change anything else.  ``before``: the state before the evaluation.  ``around``: the
    variables outside the comprehension.  ``kept``: the condition that the element is in the list.
    """

    def __init__(self, t: Trace, v: Any, before: dict[Obj, Any], around: Iterable[Slot]) -> None:
        self._before = before
        v, flag = (v.value, v.flag) if isinstance(v, Maybe) else (v, True)
        self.kept = t.value(flag)
        unchanged = all(same(t.state.get(k, UNBOUND), x) for k, x in before.items() if k is not FACTS)
        if not unchanged or any(slot in t.state and slot not in before for slot in around):
            t.unsupported("a comprehension over a long list that changes what is outside of it", "a loop")
        self._check(t, v)
        leaves, structure = pytree.flatten(containers.export(t, v))
        if not leaves:
            t.unsupported("a list of a length that is only known at run time without a number in its elements",
                          "arrays: of sizes that are known, `np.zeros((n, m))`; for lists that grow, the place of the "
                          "next element of the same list beside each element, or offsets into one array")
        self.leaves = [t.value(x) for x in leaves]
        self.kind = kind(structure, tuple(Cell(dtype, bool(weak)) for dtype, weak in map(scalar_type, leaves)))

    def _check(self, t: Trace, v: Any) -> None:
        if type(t.state.get(v) if isinstance(v, ListObj) else None) is Growing:
            error = in_loops(t, "a list of lists, of lengths that are only known at run time",
                             "lists of numbers, all of one length; or an array, `np.zeros((n, m))`")
            need_rows(t, (v,))
            raise error if is_row(t, v) else UnsupportedError(error.message, t.loc, error.hint)
        if isinstance(v, Obj):
            if v in self._before or not isinstance(v, (ListObj, DictObj, Instance)):
                self._refuse(t, v)
            content = t.contents(v)
            v = tuple(content.values() if isinstance(content, dict) else content)
        if isinstance(v, tuple):
            for x in v:
                self._check(t, x)
        elif not (is_scalar(v) or v is None or isinstance(v, str)):
            self._refuse(t, v)

    def _refuse(self, t: Trace, v: Any) -> NoReturn:
        raise in_loops(t, "a list of a length that is only known at run time, each element " + containers.describe(v),
                       "an array, filled in a loop")

    def listed(self, t: Trace, stacks: Sequence[Any]) -> LongList:
        """The list with these columns; if elements may be dropped, their number comes first in ``stacks``."""
        columns = [t.new_array(Sym(x), ELEMENT) for x in stacks[len(stacks) - len(self.leaves):]]
        if len(stacks) > len(columns):
            columns = [t.getitem(c, slice(None, Sym(stacks[0], True))) for c in columns]
        return LongList(self.kind, columns)


# --- arrays and lists -------------------------------------------------------------------------------

def imported(t: Trace, given: Columns) -> LongList:
    """A list whose columns are values of the trace."""
    return LongList(given.kind, [t.new_array(x, ELEMENT) if isinstance(x, Sym) else x for x in given.columns])


def is_array(v: Any) -> bool:
    """True if an operator with ``v`` and a list treats the list as an array."""
    return isinstance(v, ArrayRef) or is_scalar(v) and not scalar_type(v)[1]


def binary(t: Trace, op: str, x: Any, y: Any) -> Any:
    """``x op y`` where one operand is a long list, which is converted to an array if the other operand is one."""
    given = x if isinstance(x, LongList) else y
    if is_array(x) or is_array(y):
        x, y = (as_array(t, v) if isinstance(v, LongList) else v for v in (x, y))
        return t.binary(op, x, y)
    if op == "add" and isinstance(x, LongList) and isinstance(y, LongList) and x.kind is y.kind:
        return LongList(x.kind, [t.call(np.concatenate, pair) for pair in zip(x.columns, y.columns)])
    if op in ("add", "mul"):
        return given.refused(t, f"`{'+' if op == 'add' else '*'}` of")
    raise TypeError(f"unsupported operand types: {containers.describe(x)} and {containers.describe(y)}")


def as_array(t: Trace, xs: LongList) -> ArrayRef:
    """``np.array`` of a list; the column itself if the elements are numbers or arrays."""
    element = xs.kind.element
    if element.is_leaf or (element.type is Columns and len(xs.columns) == 1):
        found: ArrayRef = xs.columns[0]
        return found
    flat = element.type in (tuple, list) and all(c.is_leaf for c in element.children)
    if not flat or any(c.array for c in xs.kind.cells):
        xs.refused(t, "an array of")
    stacked: ArrayRef = t.call(np.stack, tuple(xs.columns), -1)
    return stacked
