"""Elements, lengths and attributes of user values."""

from __future__ import annotations

import collections
import operator
from typing import Any

import numpy as np

from ...errors import Loc
from ...ir.graph import ExcInfo, Operand, Value
from ...ir.types import I64, Array
from ..arrays import library, table, views
from ..arrays.library.manipulation import joining
from ..objects import (
    attributes,
    containers,
    growing_lists,
    iteration,
    list_changes,
    list_elements,
    long_lists,
    special_methods,
)
from ..objects.list_rows import Row
from ..objects.long_lists import LongList
from ..values.active import Active
from ..values.closures import WALKS, BoundMethod, Fn, Method, Partial, Range, Super
from ..values.lattice import is_number
from ..values.protocol import Trace
from ..values.values import CONSTANT, ArrayRef, Choice, DictObj, Instance, ListObj, Operators, Sym

MOST_PLACES = 64                # longest list or tuple that is indexed at run time: each position has its own code
_BOUNDS = ("start", "stop", "step")
_ASKS: dict[type, tuple[str, ...]] = {list: ("copy", "index", "count"), dict: ("copy", "get")}     # changing nothing


class Elements(Trace):
    """The part of ``Trace`` for elements, lengths and attributes."""

    def getitem(self, obj: Any, index: Any, loc: Loc | None = None) -> Any:
        if loc is not None:
            self.builder.loc = loc
        c = obj if type(obj) is Choice else self.first_choice((index,))
        if c is not None:
            return self.over(c, lambda v: self.getitem(self.settle(obj), self.settled(index)))
        growing = list_elements.contents(self, obj)
        if growing is not None:
            return self.native(growing_lists.item, self, obj, growing, index)
        if isinstance(index, (Sym, slice)):
            obj = long_lists.constant(self, obj) if isinstance(index, Sym) else obj
            obj = self.opened(obj)
        if isinstance(index, Sym) and list_changes.becomes_table(self, obj):
            return self.getitem(obj, index)
        if isinstance(index, Sym) and isinstance(obj, (tuple, str, ListObj)):
            return self.over(self.position(obj, index), lambda k: self.getitem(obj, k))
        if isinstance(index, Sym) and not index.is_array and isinstance(obj, DictObj) and self.contents(obj):
            return self.over(self.key(obj, index), lambda k: self.getitem(obj, k))
        return self.settle(self._item(obj, index))

    def position(self, obj: Any, index: Sym) -> Choice:
        """A run-time index of a list or tuple as a union of its positions."""
        n = len(self.contents(obj) if isinstance(obj, ListObj) else obj)
        if index.is_array or index.scalar.is_float:
            raise TypeError(
                f"{_kind(obj)} indices must be integers or slices, not {containers.type_of(index).__name__}")
        if n > MOST_PLACES:
            self.unsupported(f"indexes {containers.describe(obj)} by a value that is only known at run time",
                             "use an array, walk it with `for x in xs`, or `for i in jitad.unroll(range(len(xs)))`")
        if n == 0:
            self.raise_("IndexError", f"{_kind(obj)} index out of range")
        b, i = self.builder, self.value(index, I64)
        i = b.select(b.lt(i, 0), b.add(i, n), i)
        self.check(b.and_(b.ge(i, 0), b.lt(i, n)), "IndexError", f"{_kind(obj)} index out of range")
        return Choice(Sym(i, True), tuple(range(n)))

    def key(self, d: DictObj, number: Sym) -> Choice:
        """A run-time number that is a key of a dict as a union of its keys."""
        keys = self._numbers(d)
        missing = ExcInfo("KeyError", None, self.builder.loc, None, (Operand(0),))
        if not keys:
            self.raise_info(missing, number)
        tag = self._place(keys, number)
        self.builder.check(self.builder.ne(tag.value, len(keys)), self.module.exception(missing), number.value)
        return Choice(tag, tuple(keys))

    def get(self, d: DictObj, number: Sym, default: Any = None) -> Any:
        """``d.get(number, default)`` for a run-time number."""
        keys = self._numbers(d)
        if not keys:
            return default
        tag = self._place(keys, number)
        return self.over(Choice(tag, tuple(range(len(keys) + 1))),
                         lambda k: self.getitem(d, keys[k]) if k < len(keys) else default)

    def _numbers(self, d: DictObj) -> list[Any]:
        keys = [k for k in self.contents(d) if is_number(k)]
        if len(keys) > MOST_PLACES:
            self.unsupported(f"a dict of more than {MOST_PLACES} numbers with a key that is only known at run time",
                             "use an array")
        return keys

    def _place(self, keys: list[Any], number: Sym) -> Sym:
        """The index of the key that equals a run-time number, or the number of keys if there is none."""
        b = self.builder
        tag = b.const(len(keys))
        for place, k in enumerate(keys):
            tag = b.select(self.value(self.compare("eq", number, k)), b.const(place), tag)
        return Sym(tag, True)

    def _item(self, obj: Any, index: Any) -> Any:
        if isinstance(obj, ArrayRef):
            return self.native(views.getitem, self, obj, index)
        if isinstance(obj, ListObj):
            if isinstance(index, slice) and growing_lists.is_unknown(index):
                part = growing_lists.part(self, obj, index)
                if part is not None:
                    return part
            found = self.native(containers.list_item, self, list(self.contents(obj)), index)
            return self.new_list(found) if isinstance(index, slice) else found
        if isinstance(obj, tuple):
            return self.lift(self.native(containers.list_item, self, obj, index))
        if isinstance(obj, DictObj):
            return self.native(operator.getitem, self.contents(obj), containers.key(self, index))
        found = special_methods.call_special(self, obj, "__getitem__", index)
        if found is not special_methods.MISSING:
            return found
        if isinstance(obj, Instance):
            raise TypeError(f"'{obj.cls.__name__}' object is not subscriptable")
        if isinstance(obj, Active):
            return obj.item(self, index)
        if isinstance(obj, Sym):
            raise TypeError(f"{containers.describe(obj)} is not subscriptable")
        if isinstance(obj, Range) or (isinstance(obj, range) and isinstance(index, Sym)):
            return iteration.range_item(self, obj, index)
        if obj is np.r_ or obj is np.c_:
            return self.call(joining.along_rows if obj is np.r_ else joining.along_columns, index)
        if isinstance(obj, (list, str, range)):
            return self.lift(self.native(containers.list_item, self, obj, index))
        if isinstance(obj, Operators):
            raise TypeError(f"{containers.describe(obj)} is not subscriptable")
        if not containers.is_static(index) and not isinstance(obj, dict):
            self.unsupported(f"indexes {containers.describe(obj)} by a value that is only known at run time")
        if isinstance(obj, collections.defaultdict) and index not in obj:
            self.unsupported(f"reads what is not in {containers.describe(obj)}, which would put it there", "`.get`")
        if isinstance(obj, dict):
            index = containers.key(self, index)
        return self.lift(self.native(operator.getitem, obj, index))

    def setitem(self, obj: Any, index: Any, value: Any, loc: Loc | None = None) -> None:
        if loc is not None:
            self.builder.loc = loc
        if isinstance(index, Sym):
            list_changes.becomes_table(self, obj)
        if list_changes.is_changed_at_run_time(self, obj, index, value):
            self.native(list_changes.set_item, self, obj, index, value)
            return
        c = obj if type(obj) is Choice else self.first_choice((index, value if isinstance(obj, ArrayRef) else None))
        if c is None and isinstance(index, Sym) and isinstance(obj, ListObj):
            c = index = self.position(obj, index)
        if c is not None:
            self.over(c, lambda v: self.setitem(self.settle(obj), self.settled(index), self.settled(value)))
            return
        if isinstance(obj, ArrayRef):
            self.native(views.setitem, self, obj, index, value)
        elif isinstance(obj, ListObj):
            self.native(containers.set_list_item, self, obj, index, value)
        elif isinstance(obj, Row):
            self.native(obj.set, self, index, value)
        elif isinstance(obj, LongList):
            obj.refused(self, "writes into")
        elif isinstance(obj, DictObj):
            containers.writable(self, obj, "a dict")
            self.state[obj] = {**self.contents(obj), containers.key(self, index): value}
        elif special_methods.call_special(self, obj, "__setitem__", index, value) is not special_methods.MISSING:
            pass
        elif isinstance(obj, Sym) and not obj.weak:
            self.unsupported("writes into an array without axes, which is a number in compiled code",
                             "an array of one element: `a = np.zeros(1)`, `a[0] = x`")
        elif isinstance(obj, (tuple, Sym, Instance)):
            raise TypeError(f"{containers.describe(obj)} does not support item assignment")
        else:
            self.unsupported(f"writes into {containers.describe(obj)}, which is a constant here",
                             "copy it into a new object")

    def delitem(self, obj: Any, index: Any, loc: Loc) -> None:
        self.builder.loc = loc
        if growing_lists.is_unknown(index):
            list_changes.takes_run_time_length(self, obj)
        if list_elements.contents(self, obj) is not None:
            self.native(list_changes.delete, self, obj, index)
        elif isinstance(obj, Row):
            obj.refused(self, "deletes from")
        elif isinstance(obj, (ListObj, DictObj)):
            self.native(containers.delete_item, self, obj, index)
        elif isinstance(obj, (list, dict)):
            self.unsupported(f"deletes from {containers.describe(obj)}, which is a constant here", "delete from a copy")
        elif special_methods.call_special(self, obj, "__delitem__", index) is special_methods.MISSING:
            self.unsupported(f"deletes elements of {containers.describe(obj)}",
                             "copy the rest: `np.concatenate((a[:i], a[i + 1:]))`")

    def walked_list(self, v: Any) -> Any:
        return growing_lists.walked(self, v)

    def settled_list(self, v: Any) -> Any:
        return growing_lists.settled(self, v, kept=False)

    def iterate(self, v: Any) -> list[Any]:
        """All elements of a value whose length is known while tracing."""
        c = self.walked_choice(v)
        if c is None:
            return iteration.written_out(self, self.settled(v) if isinstance(v, WALKS) else v)
        found = self.over(c, lambda x: tuple(self.iterate(self.settled(v))))
        if not isinstance(found, tuple):
            self.unsupported(f"walks {containers.describe(v)}: how many elements depends on the path taken",
                             "tell them apart first, with `if len(x) == …` or `match`")
        return list(found)

    def unpack(self, v: Any, n: int, star: int | None, loc: Loc) -> list[Any]:
        self.builder.loc = loc
        if type(v) is Choice:
            return list(self.over(v, lambda x: tuple(self.unpack(x, n, star, loc))))
        v = growing_lists.settled(self, v)
        if isinstance(v, LongList) and v.holds_numbers():
            v = v.columns[0]
        if isinstance(v, ArrayRef):
            items = self._unpack_array(v, n, star)
            if len(items) == n and star is not None and list_elements.contents(self, items[star]) is not None:
                return items
        elif isinstance(v, (Sym, Fn)) or v is None or is_number(v):
            raise TypeError(f"cannot unpack non-iterable {type(containers.sample(v)).__name__} object")
        else:
            items = list(v) if type(v) is tuple else iteration.unpacked(self, v, n if star is None else None)
        if star is None:
            if len(items) > n:
                self.raise_("ValueError", f"too many values to unpack (expected {n})")
            if len(items) < n:
                self.raise_("ValueError", f"not enough values to unpack (expected {n}, got {len(items)})")
            return items
        tail = n - 1 - star
        if len(items) < n - 1:
            self.raise_("ValueError", f"not enough values to unpack (expected at least {n - 1}, got {len(items)})")
        middle = self.new_list(items[star:len(items) - tail])
        return [*items[:star], middle, *items[len(items) - tail:]]

    def _unpack_array(self, v: ArrayRef, n: int, star: int | None) -> list[Any]:
        """``x, y = a``: the length is checked at run time if it is not known; what a star takes is a long list then."""
        a = self.read(v)
        assert isinstance(a.type, Array)
        size = self.builder.dim(a.value, axis=0)
        if star is not None:
            if size.const is None:
                return self._unpack_long(v, size, n, star)
            n = size.const
        few = f"not enough values to unpack (expected {n}, got {{}})"
        self.check(self.builder.ge(size, n), "ValueError", few, size)
        self.check(self.builder.eq(size, n), "ValueError", f"too many values to unpack (expected {n})")
        return [views.element(self, v, self.sym(i)) for i in range(n)]

    def _unpack_long(self, v: ArrayRef, size: Value, n: int, star: int) -> list[Any]:
        if not isinstance(t := self.read(v).type, Array) or t.rank > 1:
            self.unsupported("unpacks an array of a length that is only known at run time into a list of arrays",
                             "slices: `a[0], a[1:-1], a[-1]`")
        b, behind = self.builder, n - 1 - star
        message = f"not enough values to unpack (expected at least {n - 1}, got {{}})"
        self.check(b.ge(size, n - 1), "ValueError", message, size)
        end = b.sub(size, behind)
        middle = self.call(list, self.getitem(v, slice(star, Sym(end, True))))
        return [*(views.element(self, v, self.sym(i)) for i in range(star)), middle,
                *(views.element(self, v, Sym(b.add(end, i), True)) for i in range(behind))]

    def mapping(self, v: Any) -> dict[str, Any]:
        return dict(self.contents(v)) if isinstance(v, DictObj) else {k: self.lift(x) for k, x in dict(v).items()}

    def opened(self, v: Any) -> Any:
        """A captured constant as a new value of the trace: a list or dict can then be changed."""
        if type(v) is list:
            return self.new_list([self.lift(x) for x in v])
        return self.new_dict(self.mapping(v)) if type(v) is dict else self.lift(v)

    def length(self, v: Any) -> Any:
        if type(v) is Choice:
            return self.over(v, self.length)
        growing = list_elements.contents(self, v)
        if growing is not None:
            return growing_lists.length(self, growing)
        if isinstance(v, (ListObj, DictObj)):
            return len(self.contents(v))
        n = self.apply_rule(len, v) if not isinstance(v, (ArrayRef, Sym)) else self.apply_rule(table.TABLE[len], v)
        known = n.value.const if isinstance(n, Sym) else n
        return n if known is None else known

    # --- attributes ---------------------------------------------------------------------------------------

    def getattr(self, obj: Any, name: str, loc: Loc | None = None) -> Any:
        if loc is not None:
            self.builder.loc = loc
        if type(obj) is Choice:
            return self.over(obj, lambda v: self.getattr(v, name))
        return self.settle(self._attribute(obj, name))

    def _attribute(self, obj: Any, name: str) -> Any:
        if isinstance(obj, (ArrayRef, Sym)):
            return self._array_attribute(obj, name)
        if isinstance(obj, Active):
            return obj.attribute(self, name)
        if isinstance(obj, Instance):
            return attributes.instance_attribute(self, obj, name)
        if isinstance(obj, (ListObj, DictObj)):
            if obj.readonly == CONSTANT and name in attributes.CHANGES:
                attributes.refuse_change(self, obj, name)
            if name in _AS_FUNCTIONS:
                return Partial((), _AS_FUNCTIONS[name], (obj,), ())
            return containers.structure_method(self, obj, name)
        if name in _ASKS.get(type(obj), ()):
            return containers.structure_method(self, self.opened(obj), name)
        if isinstance(obj, Super):
            return special_methods.super_attribute(self, obj, name)
        if isinstance(obj, Range) and name in _BOUNDS:
            return obj.parts()[_BOUNDS.index(name)]
        if isinstance(obj, tuple) and name in getattr(obj, "_fields", ()):
            return self.lift(getattr(obj, name))
        return attributes.static_attribute(self, obj, name)

    def _array_attribute(self, obj: Any, name: str) -> Any:
        if name in table.ATTRIBUTES:
            if name in table.VIEWS and isinstance(obj, ArrayRef):
                return views.view(self, obj, table.ATTRIBUTES[name], name, (), {})
            return self.apply_rule(table.ATTRIBUTES[name], obj)
        if name in table.METHODS or name in table.MUTATING_METHODS:
            return Method(name, obj)
        if isinstance(obj, ArrayRef) and name in library.ARRAY_METHODS:
            return Method(name, obj)
        if isinstance(obj, Sym) and not obj.is_array:
            if name in table.INT_METHODS and hasattr(containers.type_of(obj), name):
                return BoundMethod(getattr(containers.type_of(obj), name), obj)
            if obj.weak and name == "imag":
                return 0.0 if obj.scalar.is_float else 0
        if hasattr(np.ndarray, name):
            self.unsupported(f"the array method or attribute `{name}` is not supported")
        if isinstance(obj, Sym) and hasattr(containers.type_of(obj), name):
            self.unsupported(f"the method or attribute `{name}` of {containers.type_of(obj).__name__} is not supported")
        raise AttributeError(f"{containers.describe(obj)} has no attribute '{name}'")

    def setattr(self, obj: Any, name: str, value: Any, loc: Loc | None = None) -> None:
        if loc is not None:
            self.builder.loc = loc
        if type(obj) is Choice:
            self.over(obj, lambda v: self.setattr(v, name, value))
            return
        attributes.set_attribute(self, obj, name, value)

    def delattr(self, obj: Any, name: str, loc: Loc) -> None:
        self.builder.loc = loc
        attributes.delete_attribute(self, obj, name)


# Special methods of lists and dicts, and the functions that they implement.
_AS_FUNCTIONS: dict[str, Any] = {
    "__len__": len, "__iter__": iter, "__getitem__": operator.getitem, "__contains__": operator.contains,
    "__add__": operator.add, "__mul__": operator.mul, "__eq__": operator.eq, "__ne__": operator.ne,
}


def _kind(obj: Any) -> str:
    return "tuple" if isinstance(obj, tuple) else "string" if isinstance(obj, str) else "list"
