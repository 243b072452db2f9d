"""Lowers one IR function to one LLVM function.

``FunctionLowering`` holds what is known while that happens: the code written so far and what each IR value has
become (``values``).  Scalar ops are lines of ``ops.py``; ops with an array among operands or results are lowered by
``arrays.lower(fn, op)``; ``control.py`` has terminators, ``memory.py`` allocation, ``tape.py`` push and pop.

::

    define internal { i32, results… } @"python.NAME"(ptr noalias %ctx, parts of the parameters…)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir.graph import Function, Op, Value
from ...ir.types import Array, Scalar
from ...passes.analysis.loops import loop_forest
from ..arrays import arrays, fixed_width_vectors
from ..llvm import context, ops, types
from ..llvm.emit import Code, global_name, symbol
from ..llvm.types import Buffer, Lowered
from ..memory import arena, buffer_placement, loop_buffers, tape
from ..memory.alias import is_array
from ..threads import safepoints
from . import control
from .block_outlining import cut_long_blocks
from .fma_control import carried_sums

if TYPE_CHECKING:
    from .module import ModuleLowering

Body = Callable[[str, list[str]], Sequence[str]]
WHOLE = frozenset(("16",))
"""Trip counts of loops that become whole vectors; loops that are shorter become registers."""


class FunctionLowering:
    """What one function has become so far."""

    def __init__(self, module: ModuleLowering, func: Function) -> None:
        self.module, self.func = module, func
        self.writer, self.options, self.target = module.writer, module.options, module.target
        self.code = Code()
        self.values: dict[Value, Lowered] = {}
        self.plan = arrays.plan(func, module.sharing)    # which arrays are stored at all
        self.forest = loop_forest(func)
        self.sums = carried_sums(self.forest)
        self.flow = control.Flow(self)
        self.polling = safepoints.Polling(self)
        self.places = buffer_placement.Places(func, self.plan, self.forest)
        self.scratch = loop_buffers.Scratch(self)
        self.in_place = arena.made_in_place(func)       # arrays that are yet to be made without a call
        self.frame = 0                                   # bytes of arrays in the stack frame
        self.loc = func.loc                              # of the op that is being lowered

    # --- values -----------------------------------------------------------------------------------

    def scalar(self, v: Value) -> str:
        """The LLVM name of a scalar (or stack) value."""
        name = self.values[v]
        assert isinstance(name, str), v
        return name

    def array(self, v: Value) -> Buffer:
        """Where an array value is in memory."""
        buffer = self.values[v]
        assert isinstance(buffer, Buffer), v
        return buffer

    # --- memory -----------------------------------------------------------------------------------

    def alloc(self, type: Array, sizes: Sequence[str], value: Value | None = None) -> Buffer:
        """A new, uninitialised array for ``value``, or (``None``) one that is not needed beyond the current op.

        ``sizes`` of literal dimensions are taken from the type.
        """
        return arena.alloc(self, type, sizes, value)

    def address(self, t: Scalar, ptr: str, index: str) -> str:
        """Pointer to element ``index`` (counted in elements) behind ``ptr``."""
        if index == "0":
            return ptr
        return self.code.op(f"getelementptr inbounds {types.memory(t)}, ptr {ptr}, i64 {index}", "at")

    def load(self, t: Scalar, ptr: str, index: str = "0", note: str = "") -> str:
        """Element ``index`` behind ``ptr``; ``note`` is metadata as text (``", !alias.scope !3"``)."""
        at = self.address(t, ptr, index)
        x = self.code.op(f"load {types.memory(t)}, ptr {at}, align {types.width(t)}{note}", "x")
        return self.code.op(f"icmp ne i8 {x}, 0", "c") if t.is_bool else x

    def store(self, t: Scalar, value: str, ptr: str, index: str = "0", note: str = "") -> None:
        """Put ``value`` into element ``index`` behind ``ptr``."""
        at = self.address(t, ptr, index)
        if t.is_bool:
            value = self.code.op(f"zext i1 {value} to i8", "byte")
        self.code.do(f"store {types.memory(t)} {value}, ptr {at}, align {types.width(t)}{note}")

    def field(self, name: str) -> str:
        """Pointer to a field of the context."""
        return self.code.op(f"getelementptr inbounds i8, ptr %ctx, i64 {context.offset(name)}", "field")

    # --- i64 arithmetic on sizes and indices, folded where literal ----------------------------------

    def add(self, x: str, y: str) -> str:
        if x == "0" or y == "0":
            return y if x == "0" else x
        return self._int("add", x, y, lambda a, b: a + b)

    def sub(self, x: str, y: str) -> str:
        return x if y == "0" else self._int("sub", x, y, lambda a, b: a - b)

    def mul(self, x: str, y: str) -> str:
        if x == "1" or y == "1":
            return y if x == "1" else x
        return "0" if "0" in (x, y) else self._int("mul", x, y, lambda a, b: a * b)

    def product(self, sizes: Sequence[str]) -> str:
        """The product of sizes, ``"1"`` of none."""
        out = "1"
        for s in sizes:
            out = self.mul(out, s)
        return out

    def _int(self, name: str, x: str, y: str, known: Callable[[int, int], int]) -> str:
        if x[0] != "%" and y[0] != "%":
            return str(known(int(x), int(y)))
        return self.code.op(f"{name} nsw i64 {x}, {y}", "n")

    # --- control ----------------------------------------------------------------------------------

    def loop(self, n: str, body: Body, carried: Sequence[tuple[str, str]] = (), hint: str = "l",
             note: str = "", each: str = "1", unbounded: bool = False) -> list[str]:
        """``for i in range(n)``: emits the loop, guarded and rotated, and yields the final carried values.

        ``carried`` is a list of (LLVM type, initial name); ``body(i, values)`` emits the body at ``code`` and yields
        the next values.  ``note`` goes on the back edge (``", !llvm.loop !4"``).  The body may make blocks.  An
        iteration walks over ``each`` elements, of an array that memory does not bound if ``unbounded``.
        """
        if n == "1":
            return list(body("0", [name for _, name in carried]))
        with self.polling.around(n, each, unbounded) as in_strips:
            if in_strips:
                return self.polling.strips_of(n, each, carried, lambda start, end, values: self.plain_loop(
                    end, body, [(t, v) for (t, _), v in zip(carried, values)], hint, note, start))
            return self.plain_loop(n, body, carried, hint, note)

    def plain_loop(self, n: str, body: Body, carried: Sequence[tuple[str, str]] = (), hint: str = "l", note: str = "",
                   start: str = "") -> list[str]:
        """``for i in range(start, n)``, without polls; the first iteration runs for certain where a start is given."""
        code, inits = self.code, [name for _, name in carried]
        head, done, before = code.label(hint), code.label("done"), code.here
        outs = [code.phi(t, done) for t, _ in carried]
        if start or (n[0] != "%" and int(n) > 0):
            code.jump(head)
        else:
            code.branch(code.op(f"icmp sgt i64 {n}, 0", "c"), head, done)
            for out, init in zip(outs, inits):
                code.add_incoming(out, init, before)
        i = code.phi("i64", head, "i")
        phis = [code.phi(t, head) for t, _ in carried]
        for phi, init in zip([i, *phis], [start or "0", *inits]):
            code.add_incoming(phi, init, before)
        code.start(head)
        nexts = list(body(i, phis))
        if self._whole(n, start, head, i, list(zip([t for t, _ in carried], inits, phis, nexts)), outs):
            code.jump(done)
            code.start(done)
            return outs
        step = code.op(f"add nuw nsw i64 {i}, 1", "i")
        for phi, value in zip([i, *phis], [step, *nexts]):
            code.add_incoming(phi, value)
        for out, value in zip(outs, nexts):
            code.add_incoming(out, value)
        code.branch(code.op(f"icmp slt i64 {step}, {n}", "c"), head, done,
                    self._whole_vectors(n) or note or self.writer.loop_note())
        code.start(done)
        return outs

    def _whole(self, n: str, start: str, head: str, i: str, carried: list[tuple[str, str, str, str]],
               outs: list[str]) -> bool:
        """Rewrite the body of a loop that is just begun for vectors of all elements, if that can be."""
        code = self.code
        if n != str(fixed_width_vectors.LANES) or start or not self.target.vector_bits:
            return False
        if code.here != head or not code.is_plain(head):
            return False
        found = fixed_width_vectors.vectors(self, code.lines_of(head), i, carried)
        if found is None:
            return False
        code.drop_phis(head)
        code.replace(head, found[0])
        for out, final in zip(outs, found[1]):
            code.add_incoming(out, final)
        return True

    def _whole_vectors(self, n: str) -> str:
        """Metadata for a loop over as many elements as a few vectors hold: these, and no loop."""
        bits = self.target.vector_bits
        if n not in WHOLE or not bits or int(n) * 64 < bits:
            return ""
        return self.writer.vector_note(int(n) * 64 // bits)

    def if_(self, condition: str, then: Callable[[], None], rare: bool = False) -> None:
        """Emit ``then`` under a condition; ``rare`` marks it as unlikely."""
        yes, after = self.code.label("then"), self.code.label("after")
        self.code.branch(condition, yes, after, control.unlikely(self.writer) if rare else "")
        self.code.start(yes)
        then()
        self.code.jump(after)
        self.code.start(after)

    def either(self, condition: str, then: Callable[[], None], other: Callable[[], None]) -> None:
        """Emit ``then`` and ``other``, of which the condition chooses."""
        labels, done = [self.code.label(hint) for hint in ("then", "else")], self.code.label("done")
        self.code.branch(condition, *labels)
        for label, emit in zip(labels, (then, other)):
            self.code.start(label)
            emit()
            self.code.jump(done)
        self.code.start(done)

    # --- the whole function -----------------------------------------------------------------------

    def lower(self) -> None:
        """Write the function into the module."""
        params = self.flow.enter()
        for block in self.forest.dom.order:
            self.flow.begin(block)
            for op in block.ops:
                self.lower_op(op)
            self.flow.terminate(block)
        self.flow.finish()
        cut_long_blocks(self)
        result = types.result_struct(self.func.result_types)
        name = symbol(self.func.name)
        head = f"define internal {result} {global_name(name)}({params}) {self.module.function_attributes(self.func)}"
        self.writer.function(name, f"{head} {{\n{self.code.text()}\n}}\n")

    def lower_op(self, op: Op) -> None:
        """Emit one op that is not a terminator."""
        self.loc = op.loc
        if op.name in tape.OPS:
            tape.lower(self, op)
        elif op.name == "check":
            self.flow.check(op)
        elif is_array(op.result) or any(map(is_array, op.operands)):
            arrays.lower(self, op)
        else:
            self.values[op.result] = ops.scalar(self, op, [self.scalar(v) for v in op.operands], op in self.sums)
