"""Operations on user values: operators, attributes, elements.

Python does what is static; the rest is emitted by ``numpy_api``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Loc
from ..ir.graph import ExcInfo, Operand
from ..ir.types import BOOL, I64, Array
from . import attributes, data, iteration, numpy_api, objects, refusals, views, written
from .closures import WALKS, BoundMethod, Fn, Method, Range, Super, View
from .lattice import UNBOUND, is_number, is_scalar, same, scalar_type
from .packed import Packed
from .values import Active, ArrayRef, Choice, DictObj, Instance, ListObj, Obj, Operators, Slot, Sym

NATIVE: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "matmul": operator.matmul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
    "neg": operator.neg, "pos": operator.pos, "invert": operator.invert, "abs": abs,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
           "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}
SIGNS = {"neg": "-", "pos": "+", "invert": "~"}
MOST_PLACES = 64                # of a list or tuple that is indexed at run time: each gets code of its own
RECORDED = (LookupError, ArithmeticError, ValueError)      # certain on this path: recorded as a `raise`


class Operations:
    """The part of ``Trace`` that deals with values."""

    state: dict[Obj, Any]
    result: Slot
    builder: Any
    branch: Any
    call: Any
    check: Any
    constant: Any
    imported: Any
    contents: Any
    load: Any
    module: Any
    new_dict: Any
    new_list: Any
    first_choice: Any
    from_tag: Any
    over: Any
    settle: Any
    settled: Any
    value: Any
    walked_choice: Any
    raise_: Any
    raise_info: Any
    sym: Any
    unsupported: Any

    # --- reading and writing arrays -------------------------------------------------------------------

    def read(self, ref: Any) -> Sym:
        """What the user sees of an array now."""
        return ref if isinstance(ref, Sym) else views.read(self, ref)

    def lift(self, v: Any) -> Any:
        """A value from outside: arrays become constants, packed trees too."""
        if type(v) is Packed:
            return self.imported(Packed(v._root, [self.lift(x) for x in v._leaves]))
        return self.constant(v) if type(v) is np.ndarray else v

    def wrap(self, v: Any) -> Any:
        """What a rule returned, as values of the trace."""
        return data.import_(self, v)

    def element(self, ref: ArrayRef, it: Sym) -> Any:
        """``ref[it]`` for an index that is in range."""
        return views.element(self, ref, it)

    # --- operators ------------------------------------------------------------------------------------

    def native(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Let Python do it; an exception that is certain on this path is recorded there."""
        try:
            return fun(*args, **kwargs)
        except RECORDED as e:
            self.raise_error(e)

    def raise_error(self, e: BaseException) -> None:
        if len(e.args) == 1 and type(e).__module__ == "builtins" and isinstance(e.args[0], str):
            self.raise_(type(e).__name__, e.args[0].replace("{", "{{").replace("}", "}}"))
        builtin = type(e).__module__ == "builtins"
        self.raise_info(ExcInfo(type(e).__name__ if builtin else "", None, self.builder.loc,
                                None if builtin else type(e), e.args))

    def binary(self, op: str, x: Any, y: Any, loc: Loc | None = None) -> Any:
        if loc is not None:
            self.builder.loc = loc
        if is_number(x) and is_number(y):
            return self.native(NATIVE[op], x, y)
        if type(x) is Choice or type(y) is Choice:
            return self._over_pair(x, y, lambda a, b: self.binary(op, a, b))
        found = objects.binary(self, op, x, y)
        if found is not objects.MISSING:
            return found
        if isinstance(x, (Instance, Active)) or isinstance(y, (Instance, Active)):
            raise _no_operands(op, x, y)
        if isinstance(x, (Sym, ArrayRef)) or isinstance(y, (Sym, ArrayRef)):
            self._check_operands(op, x, y)
            return self._emit(numpy_api.binary, op, x, y)
        if op == "add" and isinstance(x, ListObj) and isinstance(y, ListObj):
            return self.new_list(self.contents(x) + self.contents(y))
        if op == "mul" and (isinstance(x, ListObj) or isinstance(y, ListObj)):
            xs, n = (x, y) if isinstance(x, ListObj) else (y, x)
            if isinstance(n, int):
                return self.new_list(self.contents(xs) * n)
        if op == "or" and isinstance(x, DictObj):
            return self.new_dict({**self.contents(x), **self.mapping(y)})
        if isinstance(x, Operators) or isinstance(y, Operators):
            raise _no_operands(op, x, y)
        return self.lift(self.native(NATIVE[op], x, y))

    def _check_operands(self, op: str, x: Any, y: Any) -> None:
        """Numbers and arrays go together, and lists and tuples with what is NumPy's; the rest Python refuses too."""
        for one, other in ((x, y), (y, x)):
            if is_number(one) or isinstance(one, (Sym, ArrayRef)):
                continue
            sequence = isinstance(one, (ListObj, tuple))
            if sequence and (isinstance(other, ArrayRef) or not scalar_type(other)[1]):
                continue
            if op == "mul" and isinstance(other, Sym) and not other.scalar.is_float and (sequence or type(one) is str):
                self.unsupported(f"repeats {data.describe(one)} a number of times that is only known at run time",
                                 "make an array: `np.full(n, x)`")
            if op == "mod" and one is x and type(x) is str:
                self.unsupported("a string made from values that are only known at run time", refusals.TEXT)
            if isinstance(one, complex):
                self.unsupported("complex numbers", "two floats, or an array with an axis of two")
            self.python_refuses(NATIVE[op], x, y)
            raise _no_operands(op, x, y)

    def _over_pair(self, x: Any, y: Any, fun: Callable[[Any, Any], Any]) -> Any:
        """``fun(x, y)`` where one of them, or both, is a choice."""
        if type(x) is Choice:
            return self.over(x, lambda v: self._over_pair(v, self.settle(y), fun))
        return self.over(y, lambda v: fun(x, v)) if type(y) is Choice else fun(x, y)

    def python_refuses(self, fun: Callable[..., Any], *args: Any) -> None:
        """Raise the error that Python raises for operands of these types, one of which is ``None``, a string, …"""
        if all(isinstance(a, _OPERANDS) for a in args):
            return
        samples = [_sample(a) for a in args]
        if all(s is not UNBOUND for s in samples):
            try:
                fun(*samples)
            except (TypeError, AttributeError) as e:
                raise type(e)(*e.args) from None
            except Exception:                        # of these values, not of their types
                pass

    def unary(self, op: str, x: Any, loc: Loc | None = None) -> Any:
        if loc is not None:
            self.builder.loc = loc
        if type(x) is Choice:
            return self.over(x, lambda v: self.unary(op, v))
        if isinstance(x, (Sym, ArrayRef)):
            return self._emit(numpy_api.unary, op, x)
        found = objects.call_special(self, x, f"__{op}__")
        if found is not objects.MISSING:
            return found
        if isinstance(x, Operators):
            raise TypeError(f"bad operand type for unary {SIGNS[op]}: {data.describe(x)}")
        return self.native(NATIVE[op], x)

    def _emit(self, rule: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a rule on what the arguments hold now."""
        c = self.first_choice((*args, *kwargs.values()))
        if c is not None:
            return self.over(c, lambda v: self._emit(rule, *args, **kwargs))
        plain = [data.plain(self, a) for a in args]
        named = {k: data.plain(self, v) for k, v in kwargs.items()}
        return self.wrap(self.native(rule, self, *plain, **named))

    def in_place(self, op: str, x: Any, y: Any, loc: Loc) -> Any:
        """``x op= y``: arrays and lists change, everything else is rebound."""
        self.builder.loc = loc
        if type(x) is Choice or type(y) is Choice:
            return self._over_pair(x, y, lambda a, b: self.in_place(op, a, b, loc))
        if isinstance(x, ArrayRef):
            new = self.native(numpy_api.inplace, self, op, self.read(x), data.plain(self, y))
            views.store_all(self, x, new)
            return x
        if isinstance(x, ListObj) and op == "add":
            data.store_list(self, x, [*self.contents(x), *self.iterate(y)])
            return x
        if isinstance(x, DictObj) and op == "or":
            data.dict_method(self, x, "update", [y], {})
            return x
        if isinstance(x, (list, dict, set, frozenset)):
            self.unsupported(f"changes {data.describe(x)}, which is a constant here", "make a new one: `x = x … y`")
        found = objects.in_place(self, op, x, y)
        return found if found is not objects.MISSING else self.binary(op, x, y)

    # --- comparisons and truth --------------------------------------------------------------------------

    def compare_at(self, loc: Loc, op: str, x: Any, y: Any) -> Any:
        self.builder.loc = loc
        return self.compare(op, x, y)

    def compare(self, op: str, x: Any, y: Any) -> Any:
        if type(x) is Choice or type(y) is Choice:
            return self._over_pair(x, y, lambda a, b: self.compare(op, a, b))
        if isinstance(x, Active) and op not in ("in", "not in"):
            return x.compare(self, op, y)
        if isinstance(y, Active) and op not in ("in", "not in"):
            return y.compare(self, objects.REFLECTED.get(op, op), x)
        if op in ("is", "is not"):
            found = self._identical(x, y)
            return found if op == "is" else self.not_(found)
        if op in ("in", "not in"):
            found = self._contains(y, x)
            return found if op == "in" else self.not_(found)
        found = objects.compare(self, op, x, y)
        if found is not objects.MISSING:
            return found
        if isinstance(x, (Sym, ArrayRef)) or isinstance(y, (Sym, ArrayRef)):
            if op in ("eq", "ne") and not (_is_numeric(x) and _is_numeric(y)):
                return op == "ne"                    # a number and None or a string
            known = self.from_tag(x, lambda n: NATIVE[op](n, y)) if is_number(y) else None
            if known is not None:
                return known
            self.python_refuses(NATIVE[op], x, y)
            return self._emit(numpy_api.compare, op, x, y)
        for kind in (tuple, ListObj):
            if isinstance(x, kind) and isinstance(y, kind) and not (data.is_static(x) and data.is_static(y)):
                return objects.in_order(self, op, self.iterate(x), self.iterate(y))
        if isinstance(x, DictObj) and isinstance(y, DictObj) and op in ("eq", "ne"):
            equal = self._same_items(self.contents(x), self.contents(y))
            return equal if op == "eq" else self.not_(equal)
        if not (data.is_static(x) and data.is_static(y)):
            if op in ("eq", "ne") and type(x) is not type(y):
                return op == "ne"
            self.unsupported(f"compares {data.describe(x)} and {data.describe(y)}", "compare their elements")
        return self.native(NATIVE[op], x, y)

    def _same_items(self, x: dict[Any, Any], y: dict[Any, Any]) -> Any:
        """Whether two dicts hold equal values under the same keys."""
        if x.keys() != y.keys():
            return False
        return objects.in_order(self, "eq", list(x.values()), [y[k] for k in x])

    def both(self, op: str, x: Any, y: Any) -> Any:
        """``x and y``, ``x or y`` of truths that are there already."""
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
        if isinstance(x, (Sym,)) or isinstance(y, (Sym,)):
            self.unsupported("`is` between values that are only known at run time", "use `==`")
        return False

    def _contains(self, container: Any, x: Any) -> Any:
        found = objects.call_special(self, container, "__contains__", x)
        if found is not objects.MISSING:
            return self.truth(found)
        if isinstance(container, View) and container.kind == "keys":
            container = container.parts()[0]
        if isinstance(container, DictObj):
            return data.key(self, x) in self.contents(container)
        if isinstance(container, ArrayRef):
            equal = self._emit(numpy_api.compare, "eq", container, x)
            return self.call(np.any, equal)
        known = isinstance(container, range) and is_number(x)
        if isinstance(container, (Range, range)) and is_scalar(x) and not known:
            return iteration.range_contains(self, container, x)
        if data.is_static(container) and data.is_static(x):
            return self.native(operator.contains, container, x)
        result: Any = False
        for item in self.iterate(container):
            c = self.truth(self.compare("eq", item, x))
            if c is True:
                return True
            result = self.both("or", result, c)
        return result

    def truth(self, v: Any, loc: Loc | None = None) -> Any:
        """The truth of a value: a Python bool when known, otherwise a bool ``Sym``."""
        if loc is not None:
            self.builder.loc = loc
        if type(v) is Choice:
            return self.over(v, self.truth)
        if isinstance(v, (Sym, ArrayRef)):
            c = self.native(numpy_api.truth, self, self.read(v))
            if isinstance(c, Sym) and c.value.const is not None:
                return bool(c.value.const)
            return c
        if isinstance(v, (ListObj, DictObj)):
            return bool(self.contents(v))
        if isinstance(v, Active):
            return v.truth(self)
        for name in ("__bool__", "__len__"):
            found = objects.call_special(self, v, name)
            if found is not objects.MISSING:
                return self.truth(found)
        if isinstance(v, Instance):
            return True
        return bool(v) if not hasattr(type(v), "with_parts") else True

    def not_(self, v: Any, loc: Loc | None = None) -> Any:
        c = self.truth(v, loc)
        return not c if isinstance(c, bool) else Sym(self.builder.not_(c.value), True)

    def choose(self, c: Sym, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``then() if c else other()`` for a condition known at run time."""
        def side(fun: Callable[[], Any]) -> Callable[[], None]:
            return lambda: self.keep(self.result, fun())
        self.branch(c.value, side(then), side(other), None)
        return self.take_result()

    def keep(self, slot: Slot, v: Any) -> None:
        """Assign a variable (in the state that evaluating ``v`` has left)."""
        self.state[slot] = v

    def take_result(self) -> Any:
        """The value of an expression whose paths have been joined."""
        v = self.load(self.result)
        self.state.pop(self.result)
        return v

    # --- elements ---------------------------------------------------------------------------------------

    def getitem(self, obj: Any, index: Any, loc: Loc | None = None) -> Any:
        if loc is not None:
            self.builder.loc = loc
        c = obj if type(obj) is Choice else self.first_choice((index,))
        if c is not None:
            return self.over(c, lambda v: self.getitem(self.settle(obj), self.settled(index)))
        if isinstance(index, Sym) and isinstance(obj, (tuple, ListObj)):
            return self.over(self.position(obj, index), lambda k: self.getitem(obj, k))
        if isinstance(index, Sym) and not index.is_array and isinstance(obj, DictObj) and self.contents(obj):
            return self.over(self.key(obj, index), lambda k: self.getitem(obj, k))
        return self.settle(self._item(obj, index))

    def position(self, obj: Any, index: Sym) -> Choice:
        """A run-time index of a list or tuple as a choice of its places."""
        n = len(self.contents(obj) if isinstance(obj, ListObj) else obj)
        if index.is_array or index.scalar.is_float:
            raise TypeError(f"{_kind(obj)} indices must be integers or slices, not {data.type_of(index).__name__}")
        if n > MOST_PLACES:
            self.unsupported(f"indexes {data.describe(obj)} by a value that is only known at run time",
                             "use an array, walk it with `for x in xs`, or `for i in jitad.unroll(range(len(xs)))`")
        b, i = self.builder, self.value(index, I64)
        i = b.select(b.lt(i, 0), b.add(i, n), i)
        self.check(b.and_(b.ge(i, 0), b.lt(i, n)), "IndexError", f"{_kind(obj)} index out of range")
        return Choice(Sym(i, True), tuple(range(n)))

    def key(self, d: DictObj, number: Sym) -> Choice:
        """A run-time number that is a key of a dict as a choice of its keys."""
        b, keys = self.builder, [k for k in self.contents(d) if is_number(k)]
        if len(keys) > MOST_PLACES:
            self.unsupported(f"a dict of more than {MOST_PLACES} numbers with a key that is only known at run time",
                             "use an array")
        tag = b.const(len(keys))
        for place, k in enumerate(keys):
            tag = b.select(self.value(self.compare("eq", number, k)), b.const(place), tag)
        missing = self.module.exception(ExcInfo("KeyError", None, self.builder.loc, None, (Operand(0),)))
        b.check(b.ne(tag, len(keys)), missing, number.value)
        return Choice(Sym(tag, True), tuple(keys))

    def _item(self, obj: Any, index: Any) -> Any:
        if isinstance(obj, ArrayRef):
            return self.native(views.getitem, self, obj, index)
        if isinstance(obj, ListObj):
            found = self.native(data.list_item, self, list(self.contents(obj)), index)
            return self.new_list(found) if isinstance(index, slice) else found
        if isinstance(obj, tuple):
            return self.lift(self.native(data.list_item, self, obj, index))
        if isinstance(obj, DictObj):
            return self.native(operator.getitem, self.contents(obj), data.key(self, index))
        found = objects.call_special(self, obj, "__getitem__", index)
        if found is not objects.MISSING:
            return found
        if isinstance(obj, Instance):
            raise TypeError(f"'{obj.cls.__name__}' object is not subscriptable")
        if isinstance(obj, Active):
            return obj.item(self, index)
        if isinstance(obj, Sym):
            raise TypeError(f"{data.describe(obj)} is not subscriptable")
        if isinstance(obj, Range) or (isinstance(obj, range) and isinstance(index, Sym)):
            return iteration.range_item(self, obj, index)
        if isinstance(obj, (list, str, range)):
            return self.lift(self.native(data.list_item, self, obj, index))
        if not data.is_static(index) and not isinstance(obj, dict):
            self.unsupported(f"indexes {data.describe(obj)} by a value that is only known at run time")
        return self.lift(self.native(operator.getitem, obj, index))

    def setitem(self, obj: Any, index: Any, value: Any, loc: Loc | None = None) -> None:
        if loc is not None:
            self.builder.loc = loc
        c = obj if type(obj) is Choice else self.first_choice((index, value if isinstance(obj, ArrayRef) else None))
        if c is None and isinstance(index, Sym) and isinstance(obj, ListObj):
            c = index = self.position(obj, index)
        if c is not None:
            return self.over(c, lambda v: self.setitem(self.settle(obj), self.settled(index), self.settled(value)))
        if isinstance(obj, ArrayRef):
            self.native(views.setitem, self, obj, index, value)
        elif isinstance(obj, ListObj):
            self.native(data.set_list_item, self, obj, index, value)
        elif isinstance(obj, DictObj):
            data.writable(self, obj, "a dict")
            self.state[obj] = {**self.contents(obj), data.key(self, index): value}
        elif objects.call_special(self, obj, "__setitem__", index, value) is not objects.MISSING:
            pass
        elif isinstance(obj, Sym) and not obj.weak:
            self.unsupported("writes into an array without axes, which is a number in compiled code",
                             "an array of one element: `a = np.zeros(1)`, `a[0] = x`")
        elif isinstance(obj, (tuple, Sym, Instance)):
            raise TypeError(f"{data.describe(obj)} does not support item assignment")
        else:
            self.unsupported(f"writes into {data.describe(obj)}, which is a constant here", "copy it into a new object")

    def delitem(self, obj: Any, index: Any, loc: Loc) -> None:
        self.builder.loc = loc
        if isinstance(obj, (ListObj, DictObj)):
            self.native(data.delete_item, self, obj, index)
        elif isinstance(obj, (list, dict)):
            self.unsupported(f"deletes from {data.describe(obj)}, which is a constant here", "delete from a copy")
        elif objects.call_special(self, obj, "__delitem__", index) is objects.MISSING:
            self.unsupported(f"deletes elements of {data.describe(obj)}",
                             "copy the rest: `np.concatenate((a[:i], a[i + 1:]))`")

    def iterate(self, v: Any) -> list[Any]:
        """Every element of something whose length is known while tracing."""
        c = self.walked_choice(v)
        if c is None:
            return iteration.written_out(self, self.settled(v) if isinstance(v, WALKS) else v)
        found = self.over(c, lambda x: tuple(self.iterate(self.settled(v))))
        if not isinstance(found, tuple):
            self.unsupported(f"walks {data.describe(v)}: how many elements depends on the path taken",
                             "tell them apart first, with `if len(x) == …` or `match`")
        return list(found)

    def unpack(self, v: Any, n: int, star: int | None, loc: Loc) -> list[Any]:
        self.builder.loc = loc
        if type(v) is Choice:
            return list(self.over(v, lambda x: tuple(self.unpack(x, n, star, loc))))
        if isinstance(v, ArrayRef):
            items = self._unpack_array(v, n, star)
        elif isinstance(v, (Sym, Fn)) or v is None or is_number(v):
            raise TypeError(f"cannot unpack non-iterable {type(_sample(v)).__name__} object")
        else:
            items = list(v) if type(v) is tuple else self.iterate(v)
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
        """``x, y = a``: the length is checked at run time where it is not known."""
        a = self.read(v)
        assert isinstance(a.type, Array)
        size = self.builder.dim(a.value, axis=0)
        if star is not None:
            if size.const is None:
                self.unsupported("unpacks an array of a length that is only known at run time into a list",
                                 "slices: `a[0], a[1:-1], a[-1]`")
            n = size.const
        message = f"cannot unpack an array of length {{}} into {n} names"
        self.check(self.builder.eq(size, n), "ValueError", message, size)
        return [views.element(self, v, self.sym(i)) for i in range(n)]

    def mapping(self, v: Any) -> dict[str, Any]:
        return dict(self.contents(v)) if isinstance(v, DictObj) else dict(v)

    def length(self, v: Any) -> Any:
        if type(v) is Choice:
            return self.over(v, self.length)
        if isinstance(v, (ListObj, DictObj)):
            return len(self.contents(v))
        n = self._emit(len, v) if not isinstance(v, (ArrayRef, Sym)) else self._emit(numpy_api.TABLE[len], v)
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
            return data.structure_method(self, obj, name)
        if isinstance(obj, Super):
            return objects.super_attribute(self, obj, name)
        if isinstance(obj, tuple) and name in getattr(obj, "_fields", ()):
            return getattr(obj, name)
        return attributes.static_attribute(self, obj, name)

    def _array_attribute(self, obj: Any, name: str) -> Any:
        if name in numpy_api.ATTRIBUTES:
            if name in numpy_api.VIEWS and isinstance(obj, ArrayRef):
                return views.view(self, obj, numpy_api.ATTRIBUTES[name], name, (), {})
            return self._emit(numpy_api.ATTRIBUTES[name], obj)
        if name in numpy_api.METHODS or name in numpy_api.MUTATING_METHODS:
            return Method(name, obj)
        if isinstance(obj, Sym) and not obj.is_array and obj.weak:
            if not obj.scalar.is_float and name in written.INT_METHODS:
                return BoundMethod(written.INT_METHODS[name], obj)
            if name == "imag":
                return 0.0 if obj.scalar.is_float else 0
        if hasattr(np.ndarray, name):
            self.unsupported(f"the array method or attribute `{name}` is not supported")
        if isinstance(obj, Sym) and hasattr(data.type_of(obj), name):
            self.unsupported(f"the method or attribute `{name}` of {data.type_of(obj).__name__} is not supported")
        raise AttributeError(f"{data.describe(obj)} has no attribute '{name}'")

    def setattr(self, obj: Any, name: str, value: Any, loc: Loc | None = None) -> None:
        if loc is not None:
            self.builder.loc = loc
        if type(obj) is Choice:
            return self.over(obj, lambda v: self.setattr(v, name, value))
        attributes.set_attribute(self, obj, name, value)

    def delattr(self, obj: Any, name: str, loc: Loc) -> None:
        self.builder.loc = loc
        attributes.delete_attribute(self, obj, name)


def _no_operands(op: str, x: Any, y: Any) -> TypeError:
    kinds = f"{data.describe(x)} and {data.describe(y)}"
    return TypeError(f"unsupported operand type(s) for {SYMBOLS.get(op, op)}: {kinds}")


def _kind(obj: Any) -> str:
    return "list" if isinstance(obj, ListObj) else "tuple"


_OPERANDS = (Sym, ArrayRef, Obj, int, float, np.generic, tuple)


def _sample(v: Any) -> Any:
    """A value of the same type, to ask Python what it says of that; ``UNBOUND`` where there is none."""
    if isinstance(v, Sym):
        return v.scalar.np.type(1).item() if v.weak else v.scalar.np.type(1)
    if isinstance(v, ArrayRef):
        return np.ones(1)
    if isinstance(v, Fn):
        return lambda: None
    return v if data.is_static(v) else UNBOUND


def _is_numeric(v: Any) -> bool:
    return is_number(v) or isinstance(v, (Sym, ArrayRef, ListObj, tuple))
