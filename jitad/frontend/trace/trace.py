"""The recorder of one IR function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ...errors import JitadError, Loc, TypeInferenceError, UnsupportedError
from ...ir.builder import Builder
from ...ir.graph import Block, ExcInfo, Function, Value
from ...ir.ops import Axis
from ...ir.types import BOOL, I64, Array, Scalar, Stack, Type, dtype_of
from ..arrays import views
from ..callables import trampolines
from ..captured.places import Place
from ..columns.recursive_types import Family
from ..flow.path_merge import Merger
from ..objects import containers, special_methods
from ..operations import operations
from ..trees import boxed_closures, nodes
from ..values import unions
from ..values.growing import Growing
from ..values.lattice import UNBOUND, is_number, is_scalar, join_scalars, same, scalar_type
from ..values.session import Session
from ..values.values import (
    ROW,
    ArrayObj,
    ArrayRef,
    Choice,
    Conflict,
    DictObj,
    Edge,
    ListObj,
    Maybe,
    Obj,
    Slot,
    State,
    Store,
    Sym,
)
from . import calls, captured_state

GROWING = ("elements that are all numbers, or all tuples of as many numbers; or an array made before, "
           "`out = np.zeros(n)`, with `out[i] = x`; or a loop of known length, `for i in jitad.unroll(range(3))`")


class Dead(Exception):
    """Ends the path that is being traced: it returned, jumped or raised."""


class FunctionTrace(captured_state.CapturedState, operations.Operations, nodes.Nodes, calls.Calls, unions.Choices,
                    boxed_closures.Boxes):
    """The trace of one IR function (see ``values.Context``)."""

    def __init__(self, session: Session, func: Function) -> None:
        self.session, self.func = session, func
        self.module, self.options = session.module, session.options
        self.builder = Builder(func.entry, func.loc)
        self.size_roots: tuple[Block | None, dict[Axis, Value | Axis]] = (None, {})
        self.state: State = {}
        self.returns: list[Edge] = []
        self.result = Slot("result")
        self.pinned: list[Obj] = []                  # objects that the caller can see: always live
        self.heaps: dict[Family, Store] = {}         # the heaps in which nodes are allocated
        self.consts: dict[Place, Any] = {}           # parameters for captured values
        self.opened_at: dict[Place, tuple[Any, Any]] = {}
        self.loop_types: dict[Any, dict[str, tuple[Scalar, bool]]] = {}
        self.widened: set[Value] = set()
        self.appends: list[Any] = []                 # ``growing_lists.Appends`` of the enclosing loops
        self.meanings: dict[Value, unions.Meaning] = {}
        self.combinations: dict[Value, tuple[str, Sequence[Value]]] = {}
        self.decided: dict[Value, tuple[Choice, dict[int, Any]]] = {}
        self.depth = 0                               # number of enclosing run-time conditions

    def inner(self, func: Function) -> FunctionTrace:
        return FunctionTrace(self.session, func)

    @property
    def loc(self) -> Loc:
        """The user's location; in a trampoline, that of the user's function."""
        loc = self.builder.loc
        return self.func.loc if loc.file == trampolines.__file__ else loc

    # --- paths ------------------------------------------------------------------------------------

    @contextmanager
    def on(self, edge: Edge) -> Iterator[None]:
        """A context that records at the end of another path."""
        block, state = self.builder._block, self.state
        self.builder.at(edge.block)
        self.state = edge.state
        try:
            yield
        finally:
            self.builder.at(block)
            self.state = state

    def here(self) -> Edge:
        return Edge(self.builder.block, self.state)

    def path(self, side: Callable[[], None]) -> Edge | None:
        """Traces ``side`` from here; returns the end of its path, or None if it jumps away."""
        try:
            side()
        except Dead:
            return None
        return self.here()

    def survives(self, side: Callable[[], None]) -> bool:
        """Traces ``side``, which may end the path; returns True if it did not."""
        try:
            side()
        except Dead:
            return False
        return True

    def enter(self, edge: Edge) -> None:
        self.builder.at(edge.block)
        self.state = edge.state

    def join(self, edges: Sequence[Edge | None], roots: Sequence[Obj] | None, name: str = "join") -> None:
        """Continues at the join of these paths; ``roots``: the variables that are live there (None: all)."""
        alive = [e for e in edges if e is not None]
        if not alive:
            self.die()
        if len(alive) == 1:
            return self.enter(alive[0])
        block = self.func.new_block(name)
        merger = Merger(self, block, alive)
        state = merger.run(roots)
        merger.jump()
        self.builder.at(block)
        self.state = state

    def branch(self, cond: Value, then: Callable[[], None], other: Callable[[], None],
               roots: Sequence[Obj] | None) -> None:
        """Traces both sides of a run-time condition and continues at their join."""
        blocks = [self.func.new_block("then"), self.func.new_block("else")]
        before, edges = self.state, []
        self.builder.branch(cond, blocks[0], [], blocks[1], [])
        self.depth += 1
        for block, side, truth in zip(blocks, (then, other), (True, False)):
            self.enter(Edge(block, dict(before)))
            self.assume(cond, truth)
            edges.append(self.path(side))
        self.depth -= 1
        self.join(edges, roots if roots is not None else [*before, self.result])

    def fork(self, cond: Value, then: str = "then", other: str = "else") -> Edge:
        """Continues on the path on which a condition holds; returns the path on which it does not."""
        inside, outside = self.func.new_block(then), self.func.new_block(other)
        self.builder.branch(cond, inside, [], outside, [])
        left = Edge(outside, dict(self.state))
        with self.on(left):
            self.assume(cond, False)
        self.builder.at(inside)
        self.assume(cond, True)
        return left

    def die(self) -> NoReturn:
        """Abandons this path, which has ended or cannot be reached."""
        self.builder.at(None)
        raise Dead

    def return_(self, value: Any) -> NoReturn:
        self.state[self.result] = special_methods.handed_over(self, value)
        self.returns.append(self.here())
        self.die()

    # --- errors -----------------------------------------------------------------------------------

    def unsupported(self, message: str, hint: str = "") -> NoReturn:
        raise UnsupportedError(message, self.loc, hint)

    def check(self, cond: Any, kind: str, message: str, *values: Any) -> None:
        """Raises the builtin exception ``kind`` at run time unless ``cond`` holds."""
        value = cond if isinstance(cond, Value) else self.value(cond, BOOL)
        if value.const is True:
            return
        if value.const is False:
            self.raise_(kind, message, *values)
        exc = self.module.exception(ExcInfo(kind, message, self.loc))
        self.builder.check(value, exc, *(self.value(v) for v in values[:4]))
        self.assume(value, True)

    def raise_(self, kind: str, message: str | None, *values: Any) -> NoReturn:
        """Ends this path with an exception."""
        self.raise_info(ExcInfo(kind, message, self.loc), *values)

    def raise_info(self, info: ExcInfo, *values: Any) -> NoReturn:
        self.builder.raise_(self.module.exception(info), [self.value(v) for v in values])
        self.die()

    # --- IR values ----------------------------------------------------------------------------------

    def value(self, v: Any, type: Scalar | None = None) -> Value:
        """The IR value of a number or stand-in, cast to the scalar type ``type`` if one is given."""
        if isinstance(v, Value):
            return v
        if isinstance(v, ArrayRef):
            v = self.read(v)
        if isinstance(v, Sym):
            return v.value if type is None or v.scalar == type else self.builder.cast(v.value, dtype=type)
        if not is_number(v):
            raise TypeInferenceError(f"{containers.describe(v)} where a number is needed", self.loc)
        own = scalar_type(v)[0]
        if own == I64 and not -(1 << 63) <= v < 1 << 63:
            raise UnsupportedError(f"the integer {v} does not fit in 64 bits", self.loc)
        constant = self.builder.const(v.item() if isinstance(v, np.generic) else v, own)
        return constant if type is None else self.builder.cast(constant, dtype=type)

    def sym(self, v: Any) -> Sym:
        """A number as a stand-in."""
        return v if isinstance(v, Sym) else Sym(self.value(v), scalar_type(v)[1])

    def convert(self, v: Any, type: Type) -> Value:
        """The IR value of ``v`` as an argument for a block parameter of this type."""
        if v is UNBOUND:
            return self.builder.undef(type)
        if isinstance(type, Array):
            return self.builder.typed(self.value(v), type)
        return self.value(v, None if isinstance(type, Stack) else dtype_of(type))

    # --- mutable objects ------------------------------------------------------------------------------

    def contents(self, obj: Obj) -> Any:
        """The current contents of a mutable object."""
        content = self.state.get(obj, UNBOUND)
        if isinstance(content, Conflict):
            hints = {ListObj: GROWING, DictObj: "put every key in before the `if` or loop"}
            self.unsupported(f"this is {content.reason}", hints.get(type(obj), "give it one structure on every path"))
        if content is UNBOUND:
            raise JitadError(f"an object ({containers.describe(obj)}) was lost where paths meet", self.loc)
        if type(content) is Growing:
            self.unsupported("looks at the elements of a list whose length is only known at run time",
                             "an array, `np.array(xs)`, or a loop over it")
        self.check_fresh(obj)
        return content

    def check_fresh(self, obj: Obj) -> None:
        """Refuses to read an object that may be one of several, if one of them has changed since, and a ``ROW``."""
        if obj.readonly is ROW and obj not in self.session.unmoved:
            self.unsupported(f"reads a list that has been put into a list of lists: {ROW}",
                             "read it there, `rows[-1]`; or put in a copy, `rows.append(row[:])`")
        for other, then in obj.maybe:
            if not same(self.state.get(other, UNBOUND), then):
                self.unsupported("reads what may be one of several, one of which has changed since",
                                 "use `.copy()` where the name gets its value" if isinstance(obj, ArrayObj) else
                                 "write the `if` where the value is read")

    def new_array(self, sym: Sym, readonly: str = "") -> ArrayRef:
        obj = ArrayObj(readonly)
        self.state[obj] = sym
        return ArrayRef(obj)

    def overwrite(self, ref: ArrayRef, sym: Sym) -> None:
        """Replaces the contents of an array by ``sym``, of the same type: the effect of a callee."""
        views.store_all(self, ref, sym)

    def choose_value(self, c: Any, x: Any, y: Any) -> Any:
        """``x if c else y`` for values that have been computed already."""
        if isinstance(c, bool):
            return x if c else y
        if is_scalar(x) and is_scalar(y) and (joined := join_scalars((x, y), False)):
            kind, weak = joined
            return Sym(self.builder.select(c.value, self.value(x, kind), self.value(y, kind)), weak)
        if type(x) is tuple and type(y) is tuple and len(x) == len(y) and all(map(is_scalar, (*x, *y))):
            return tuple(self.choose_value(c, a, b) for a, b in zip(x, y))
        return self.choose(c, lambda: x, lambda: y)

    def new_list(self, items: Sequence[Any]) -> ListObj:
        obj = ListObj()
        self.state[obj] = tuple(items)
        return obj

    def new_dict(self, items: dict[Any, Any]) -> DictObj:
        obj = DictObj()
        self.state[obj] = items
        return obj

    # --- variables ------------------------------------------------------------------------------------

    def load(self, slot: Slot, own: bool = True) -> Any:
        """The value of a variable, of this function (``own``) or an enclosing one; checked if it may be unbound."""
        v = self.state.get(slot, UNBOUND)
        if v is UNBOUND:
            self.raise_(*_unbound(slot, own))
        if slot.maybe:
            self.check_fresh(slot)
        if isinstance(v, Maybe):
            if v.flag is not True:
                self.check(v.flag, *_unbound(slot, own))
            v = self.state[slot] = v.value
        if isinstance(v, Conflict):
            what = "the function's result" if slot is self.result else f"`{slot.name}`"
            self.unsupported(f"{what} is {v.reason}", "give it one type and structure on every path")
        return self.settle(v)


def _unbound(slot: Slot, own: bool) -> tuple[str, str]:
    """The exception for a variable without a value."""
    rest = "where it is not associated with a value"
    if own:
        return "UnboundLocalError", f"cannot access local variable '{slot.name}' {rest}"
    return "NameError", f"cannot access free variable '{slot.name}' {rest} in enclosing scope"
