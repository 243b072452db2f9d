"""Operations on user values.

Python evaluates operations on static values; the rules of ``arrays.table`` emit the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...errors import JitadError, Loc
from ...ir.graph import ExcInfo
from ...ir.types import F64, INSTEAD
from ..arrays import table, views
from ..columns.list_columns import Columns
from ..flow import raising
from ..objects import containers, growing_lists, list_changes, list_operators, long_lists, special_methods
from ..objects.list_rows import Row
from ..trees.references import TextOf
from ..values.active import Active
from ..values.closures import TEXT, Range, Template
from ..values.lattice import UNBOUND, is_narrower, is_number, is_scalar, scalar_type
from ..values.values import ArrayRef, Choice, DictObj, Instance, ListObj, Obj, Operators, Slot, Sym
from .comparing import Comparisons
from .subscripts import Elements

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
RECORDED = (LookupError, ArithmeticError, ValueError)      # certain on this path: recorded as a `raise`


class Operations(Comparisons, Elements):
    """The part of ``Trace`` for operations on values."""

    # --- reading and writing arrays -------------------------------------------------------------------

    def read(self, ref: Any) -> Sym:
        """The current contents of an array."""
        return ref if isinstance(ref, Sym) else views.read(self, ref)

    def long_list(self, given: Columns) -> long_lists.LongList:
        """A list whose columns are values of the trace."""
        return long_lists.imported(self, given)

    def wrap(self, v: Any) -> Any:
        """The result of a rule as values of the trace."""
        return containers.import_(self, v)

    def element(self, ref: ArrayRef, it: Sym) -> Any:
        """``ref[it]`` for an index that is in range."""
        return views.element(self, ref, it)

    # --- operators ------------------------------------------------------------------------------------

    def native(self, fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Lets Python evaluate a call; records an exception as raised on this path."""
        try:
            return fun(*args, **kwargs)
        except JitadError:                           # some are Python's too (``ShapeError``)
            raise
        except RECORDED as e:
            self.raise_error(e)

    def raise_error(self, e: BaseException) -> NoReturn:
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
            return self.over_pair(x, y, lambda a, b: self.binary(op, a, b))
        if type(x) in _NUMERIC and type(y) in _NUMERIC:              # most operands; what follows is about others
            return self._narrower(self.apply_rule(table.OPERATORS[op], x, y), x, y)
        x, y = self.opened(x), self.opened(y)
        found = special_methods.binary(self, op, x, y)
        if found is not special_methods.MISSING:
            return found
        x, y = growing_lists.settled(self, x), growing_lists.settled(self, y)
        if isinstance(x, long_lists.LongList) or isinstance(y, long_lists.LongList):
            return list_operators.binary(self, op, x, y)
        if op == "mul" and (repeated := list_operators.repeated(self, x, y)) is not None:
            return repeated
        if isinstance(x, (Template, TextOf)) or isinstance(y, (Template, TextOf)):
            joined = raising.joined(self, op, x, y)
            if joined is not None:
                return joined
        if isinstance(x, (Instance, Active)) or isinstance(y, (Instance, Active)):
            raise _no_operands(op, x, y)
        if isinstance(x, (Sym, ArrayRef)) or isinstance(y, (Sym, ArrayRef)):
            self._check_operands(op, x, y)
            return self.apply_rule(table.OPERATORS[op], x, y)
        if op == "add" and isinstance(x, ListObj) and isinstance(y, ListObj):
            return self.new_list(self.contents(x) + self.contents(y))
        if op == "mul" and (isinstance(x, ListObj) or isinstance(y, ListObj)):
            xs, n = (x, y) if isinstance(x, ListObj) else (y, x)
            if isinstance(n, int):
                return self.new_list(self.contents(xs) * n)
        if op == "or" and isinstance(x, (DictObj, dict)) and isinstance(y, (DictObj, dict)):
            return self.new_dict({**self.mapping(x), **self.mapping(y)})
        if isinstance(x, Operators) or isinstance(y, Operators):
            raise _no_operands(op, x, y)
        return self.lift(self.native(NATIVE[op], x, y))

    def _check_operands(self, op: str, x: Any, y: Any) -> None:
        """Raises an error unless the operands are numbers and arrays, or a sequence with a NumPy operand."""
        for one, other in ((x, y), (y, x)):
            if is_number(one) or isinstance(one, (Sym, ArrayRef)):
                continue
            sequence = isinstance(one, (ListObj, tuple))
            arrays = isinstance(other, ArrayRef) or not scalar_type(other)[1]
            if arrays and (sequence or isinstance(one, (range, Range))):
                continue
            if op == "mul" and isinstance(other, Sym) and not other.scalar.is_float and (sequence or type(one) is str):
                self.unsupported(f"repeats {containers.describe(one)} a number of times that is only known at run time",
                                 "make an array: `np.full(n, x)`")
            if op == "mod" and one is x and type(x) is str:
                self.unsupported("a string made from values that are only known at run time", TEXT)
            if isinstance(one, complex):
                self.unsupported("complex numbers", "two floats, or an array with an axis of two")
            if isinstance(one, np.generic):
                self.unsupported(f"a value of dtype {one.dtype}", f"convert it to {INSTEAD}")
            self.python_refuses(NATIVE[op], x, y)
            raise _no_operands(op, x, y)

    def python_refuses(self, fun: Callable[..., Any], *args: Any) -> None:
        """Raises Python's error for operands of these types, one of which is None, a string, …"""
        if all(isinstance(a, _OPERANDS) for a in args):
            return
        samples = [containers.sample(a) for a in args]
        if all(s is not UNBOUND for s in samples):
            try:
                fun(*samples)
            except (TypeError, AttributeError) as e:
                raise type(e)(*e.args) from None
            except Exception:                        # an error for these values, not for their types
                pass

    def unary(self, op: str, x: Any, loc: Loc | None = None) -> Any:
        if loc is not None:
            self.builder.loc = loc
        if type(x) is Choice:
            return self.over(x, lambda v: self.unary(op, v))
        if isinstance(x, (Sym, ArrayRef)):
            return self._narrower(self.apply_rule(table.unary, op, x), x)
        found = special_methods.call_special(self, x, f"__{op}__")
        if found is not special_methods.MISSING:
            return found
        if isinstance(x, Operators):
            raise TypeError(f"bad operand type for unary {SIGNS[op]}: {containers.describe(x)}")
        return self.native(NATIVE[op], x)

    def _narrower(self, result: Any, *operands: Any) -> Any:
        """The result, which is known to be an f64 only since a number that has been widened is among the operands."""
        if self.widened and type(result) is Sym and result.type is F64 and not result.weak and all(
                is_scalar(v) and is_narrower(v, self.widened) for v in operands):
            self.widened.add(result.value)
        return result

    def apply_rule(self, rule: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs a rule on the current contents of the arguments."""
        simple = not kwargs and _NUMERIC.issuperset(map(type, args))       # most are
        c = None if simple else self.first_choice((*args, *kwargs.values()))
        if c is not None:
            return self.over(c, lambda v: self.apply_rule(rule, *args, **kwargs))
        plain = [a if type(a) is Sym else containers.plain(self, a) for a in args]
        named = {k: containers.plain(self, v) for k, v in kwargs.items()}
        result = self.wrap(self.native(rule, self, *plain, **named))
        return views.made_from(self, result, rule, (*args, *kwargs.values()))

    def in_place(self, op: str, x: Any, y: Any, loc: Loc) -> Any:
        """``x op= y``: changes arrays and lists, and rebinds other values."""
        self.builder.loc = loc
        if type(x) is Choice or type(y) is Choice:
            return self.over_pair(x, y, lambda a, b: self.in_place(op, a, b, loc))
        if isinstance(x, ArrayRef):
            views.check_writable(self, x.obj, f"make a new array, `x = x {SYMBOLS[op]} y`, or ")
            new = self.native(table.inplace, self, op, self.read(x), containers.plain(self, y))
            views.store_all(self, x, new)
            return x
        if isinstance(x, ListObj) and op == "add":
            if list_changes.grows(self, x, "extend", (y,)):
                list_changes.extend(self, x, y)
                return x
            containers.store_list(self, x, [*self.contents(x), *self.iterate(y)])
            return x
        if isinstance(x, Row) and op in ("add", "mul"):
            x.refused(self, "makes longer or shorter")
        if isinstance(x, DictObj) and op == "or":
            containers.dict_method(self, x, "update", [y], {})
            return x
        if isinstance(x, (list, dict, set, frozenset)):
            self.unsupported(f"changes {containers.describe(x)}, which is a constant here",
                             "make a new one: `x = x … y`")
        found = special_methods.in_place(self, op, x, y)
        return found if found is not special_methods.MISSING else self.binary(op, x, y)

    # --- paths ------------------------------------------------------------------------------------------

    def choose(self, c: Sym, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``then() if c else other()`` for a run-time condition."""
        def side(fun: Callable[[], Any]) -> Callable[[], None]:
            return lambda: self.keep(self.result, fun())
        self.branch(c.value, side(then), side(other), None)
        return self.take_result()

    def keep(self, slot: Slot, v: Any) -> None:
        """Assigns a variable in the state after ``v`` has been evaluated."""
        self.state[slot] = v

    def take_result(self) -> Any:
        """The value of an expression whose paths have been joined."""
        v = self.load(self.result)
        self.state.pop(self.result)
        return v


def _no_operands(op: str, x: Any, y: Any) -> TypeError:
    kinds = f"{containers.describe(x)} and {containers.describe(y)}"
    return TypeError(f"unsupported operand type(s) for {SYMBOLS.get(op, op)}: {kinds}")


_NUMERIC = frozenset((Sym, ArrayRef, float, int, bool))
_OPERANDS = (Sym, ArrayRef, Obj, int, float, np.generic, tuple)
