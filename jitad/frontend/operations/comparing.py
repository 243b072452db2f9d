"""Comparisons, ``in``, ``is`` and the truth of user values."""

from __future__ import annotations

import operator
from collections.abc import KeysView
from typing import Any

import numpy as np

from ...errors import Loc
from ...ir.types import BOOL
from ..arrays import table
from ..objects import containers, growing_lists, iteration, list_elements, special_methods
from ..objects.long_lists import LongList
from ..values import purity
from ..values.active import Active
from ..values.closures import Fn, Range, View
from ..values.lattice import is_number, is_scalar, same, scalar_type
from ..values.protocol import Trace
from ..values.values import ELEMENT, ArrayRef, Choice, DictObj, Instance, ListObj, Obj, Sym
from . import builtin


class Comparisons(Trace):
    """The part of ``Trace`` for comparisons."""

    def compare_at(self, loc: Loc, op: str, x: Any, y: Any) -> Any:
        self.builder.loc = loc
        return self.compare(op, x, y)

    def compare(self, op: str, x: Any, y: Any) -> Any:
        if type(x) is Choice or type(y) is Choice:
            return self.over_pair(x, y, lambda a, b: self.compare(op, a, b))
        if isinstance(x, Active) and op not in ("in", "not in"):
            return x.compare(self, op, y)
        if isinstance(y, Active) and op not in ("in", "not in"):
            return y.compare(self, special_methods.REFLECTED.get(op, op), x)
        if op in ("is", "is not"):
            if isinstance(x, Instance) or isinstance(y, Instance):
                x, y = self.lift(x), self.lift(y)
            self.compared(x, y)
            found = self._identical(x, y)
            return found if op == "is" else self.not_(found)
        if op in ("in", "not in"):
            found = self._contains(y, x)
            return found if op == "in" else self.not_(found)
        if not (containers.is_static(x) and containers.is_static(y)):
            x, y = self.opened(x), self.opened(y)
        found = special_methods.compare(self, op, x, y)
        if found is not special_methods.MISSING:
            return found
        if isinstance(x, (Sym, ArrayRef)) or isinstance(y, (Sym, ArrayRef)):
            if op in ("eq", "ne") and not (_is_numeric(x) and _is_numeric(y)):
                return op == "ne"                    # a number and None or a string
            if _number_and_sequence(x, y) or _number_and_sequence(y, x):
                if op in ("eq", "ne"):
                    return op == "ne"
                names = (f"'{builtin.type_name(self, v)}'" for v in (x, y))
                raise TypeError(
                    f"'{special_methods.SIGNS[op]}' not supported between instances of {' and '.join(names)}")
            known = self.from_tag(x, lambda n: getattr(operator, op)(n, y)) if is_number(y) else None
            if known is not None:
                return known
            self.python_refuses(getattr(operator, op), x, y)
            return self.apply_rule(table.compare, op, x, y)
        if containers.is_static(x) and containers.is_static(y):
            return self.native(getattr(operator, op), x, y)
        return self._compare_structures(op, x, y)

    def _compare_structures(self, op: str, x: Any, y: Any) -> Any:
        """Compares two structures; traced and captured ones compare as in Python."""
        x, y = growing_lists.settled(self, x), growing_lists.settled(self, y)
        if isinstance(x, LongList) or isinstance(y, LongList):
            return self.compare(op, x, y)
        for kind in (tuple, (ListObj, list)):
            if isinstance(x, kind) and isinstance(y, kind):
                return special_methods.in_order(self, op, self.iterate(x), self.iterate(y))
        equal = None
        if isinstance(x, (DictObj, dict)) and isinstance(y, (DictObj, dict)):
            equal = self._same_items(self.mapping(x), self.mapping(y))
        elif isinstance(x, (Range, range)) and isinstance(y, (Range, range)):
            equal = self._same_ranges(x, y)
        if equal is not None and op in ("eq", "ne"):
            return equal if op == "eq" else self.not_(equal)
        keys = [_keys_of(self, v) for v in (x, y)]
        if None not in keys:
            return self.native(getattr(operator, op), *keys)
        other = isinstance(x, Fn) or isinstance(y, Fn) or builtin.type_name(self, x) != builtin.type_name(self, y)
        if op in ("eq", "ne") and other:
            return op == "ne"
        return self.unsupported(f"compares {containers.describe(x)} and {containers.describe(y)}",
                                "compare their elements")

    def _same_ranges(self, x: Any, y: Any) -> Any:
        """True, as a user value, if two ranges hold the same numbers."""
        n, m = iteration.count(self, x), iteration.count(self, y)
        first, step = (self.compare("eq", self.getattr(x, name), self.getattr(y, name)) for name in ("start", "step"))
        alike = self.both("and", first, self.both("or", step, self.compare("eq", n, 1)))
        return self.both("and", self.compare("eq", n, m), self.both("or", alike, self.compare("eq", n, 0)))

    def _same_items(self, x: dict[Any, Any], y: dict[Any, Any]) -> Any:
        """True, as a user value, if two dicts hold equal values under the same keys."""
        if x.keys() != y.keys():
            return False
        return special_methods.in_order(self, "eq", list(x.values()), [y[k] for k in x])

    def both(self, op: str, x: Any, y: Any) -> Any:
        """``x and y`` or ``x or y`` for truth values that have been computed already."""
        if isinstance(x, bool) or isinstance(y, bool):
            known, other = (x, y) if isinstance(x, bool) else (y, x)
            return other if known is (op == "and") else known
        return Sym(self.builder.emit(op, x.value, y.value), True)

    def _identical(self, x: Any, y: Any) -> Any:
        if x is y or same(x, y):
            return True
        for v, known in ((x, y), (y, x)):
            if type(v) is Sym and v.type == BOOL and v.weak and type(known) is bool:
                return v if known else self.not_(v)
        if x is None or y is None or isinstance(x, (type, bool)) or isinstance(y, (type, bool)):
            return False
        if _in_a_long_list(x) and _in_a_long_list(y):
            self.unsupported("`is` between elements of long lists", "compare their places")
        if _may_be_number(x) and _may_be_number(y) and (isinstance(x, Sym) or isinstance(y, Sym)):
            self.unsupported("`is` between values that are only known at run time", "use `==`")
        return False

    def _contains(self, container: Any, x: Any) -> Any:
        found = special_methods.call_special(self, container, "__contains__", x)
        if found is not special_methods.MISSING:
            return self.truth(found)
        container = growing_lists.settled(self, container)
        if isinstance(container, View) and container.kind == "keys":
            container = container.parts()[0]
        if isinstance(container, (DictObj, dict)) and isinstance(x, Sym) and not x.is_array:
            container = tuple(k for k in self.mapping(container) if is_number(k))
        if isinstance(container, DictObj):
            return containers.key(self, x) in self.contents(container)
        if isinstance(container, dict) and isinstance(x, Instance):
            return containers.key(self, x) in container
        if isinstance(container, LongList) and container.holds_numbers():
            if x is None or isinstance(x, str):
                return False
            container = container.columns[0] if is_scalar(x) else container
        if isinstance(container, ArrayRef):
            equal = self.apply_rule(table.compare, "eq", container, x)
            return self.call(np.any, equal)
        known = isinstance(container, range) and is_number(x)
        if isinstance(container, (Range, range)) and is_scalar(x) and not known:
            return iteration.range_contains(self, container, x)
        traced = (isinstance(container, (tuple, list))
                  and special_methods.compares_itself(self, (container, x), "__eq__"))
        known = containers.is_static(container) and containers.is_static(x)
        if known and not purity.is_iterator(container) and not traced:
            return self.native(operator.contains, container, x)
        result: Any = False
        for item in iteration.some_of(self, container, "in"):
            c = self.truth(self.compare("eq", item, x))
            if c is True:
                return True
            result = self.both("or", result, c)
        return result

    def truth(self, v: Any, loc: Loc | None = None) -> Any:
        """The truth of a value: a Python bool if it is known, else a bool ``Sym``."""
        if loc is not None:
            self.builder.loc = loc
        if type(v) is Choice:
            return self.over(v, self.truth)
        if isinstance(v, (Sym, ArrayRef)):
            c = self.native(table.truth, self, self.read(v))
            if isinstance(c, Sym) and c.value.const is not None:
                return bool(c.value.const)
            return c
        if isinstance(v, (ListObj, DictObj)):
            n = list_elements.contents(self, v)
            return bool(self.contents(v)) if n is None else self.truth(self.compare("gt", n.length, 0))
        if isinstance(v, Active):
            return v.truth(self)
        for name in ("__bool__", "__len__"):
            found = special_methods.call_special(self, v, name)
            if found is not special_methods.MISSING:
                return self.truth(found)
        if isinstance(v, Instance):
            return True
        return bool(v) if not hasattr(type(v), "with_parts") else True

    def not_(self, v: Any, loc: Loc | None = None) -> Any:
        c = self.truth(v, loc)
        return not c if isinstance(c, bool) else Sym(self.builder.not_(c.value), True)


def _in_a_long_list(v: Any) -> bool:
    obj = v.obj if isinstance(v, ArrayRef) else v
    return isinstance(obj, Obj) and obj.readonly is ELEMENT


def _may_be_number(v: Any) -> bool:
    return isinstance(v, Sym) or is_number(v)


def _number_and_sequence(x: Any, y: Any) -> bool:
    """True if a Python number, neither an array nor a NumPy number, is compared with a list or tuple."""
    return isinstance(y, (ListObj, tuple)) and is_scalar(x) and bool(scalar_type(x)[1])


def _is_numeric(v: Any) -> bool:
    return is_number(v) or isinstance(v, (Sym, ArrayRef, ListObj, tuple))


def _keys_of(t: Trace, v: Any) -> set[Any] | None:
    """The elements of a set or of a view of a dict's keys as a set to compare; None for other values."""
    if isinstance(v, View) and v.kind == "keys":
        d = v.parts()[0]
        return set(t.contents(d) if isinstance(d, DictObj) else d)
    return set(v) if isinstance(v, (set, frozenset, KeysView)) else None
