"""The code of one device function or kernel while it is written: memory accesses, integers, loops.

Every access to memory that threads share goes through ``access``, which notes the user's line in instrumented text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....errors import NOWHERE, Loc
from ....ir.graph import Module, Value
from ....ir.types import Scalar, dtype_of
from ...llvm import types
from ...llvm.code import Assembly
from ...llvm.emit import Writer
from ...llvm.target import ANY_GPU, Target
from ...math.options import Options
from .values import Memory, Part

Body = Callable[[str, list[str]], Sequence[str]]
TARGET = Target(ANY_GPU, "")


@dataclass(frozen=True)
class Shared:
    """The state that all functions of an image share; ``recursive``: the functions that may call themselves."""

    module: Module
    writer: Writer
    options: Options
    instrumented: bool
    recursive: frozenset[str]


class Emitter:
    """Appends instructions to ``code``; ``values`` has the parts of values of the loop level."""

    target = TARGET

    def __init__(self, shared: Shared) -> None:
        self.shared, self.writer, self.options = shared, shared.writer, shared.options
        self.code = Assembly()
        self.values: dict[Value, Part] = {}
        self.loc: Loc = NOWHERE

    # --- values -------------------------------------------------------------------------------------

    def value(self, v: Value) -> Part:
        """The parts of a value; constants need not be defined here."""
        if v not in self.values and v.const is not None:
            return types.literal(v.const, dtype_of(v.type))
        return self.values[v]

    def scalar(self, v: Value) -> str:
        x = self.value(v)
        assert isinstance(x, str), v
        return x

    def memory(self, v: Value) -> Memory:
        x = self.values[v]
        assert isinstance(x, Memory), v
        return x

    # --- memory -------------------------------------------------------------------------------------

    def access(self, text: str, result: bool = False) -> str:
        """Append an access to memory; instrumented text has the user's line behind it."""
        if self.shared.instrumented and self.loc.line:
            text = f"{text} ; {self.loc.file}:{self.loc.line}"
        if result:
            return self.code.op(text, "x")
        self.code.do(text)
        return ""

    def load(self, t: Scalar, ptr: str, space: int = 0, align: int = 0) -> str:
        x = self.access(f"load {types.memory(t)}, {_pointer(ptr, space)}, align {align or types.width(t)}", result=True)
        return self.code.op(f"icmp ne i8 {x}, 0", "c") if t.is_bool else x

    def store(self, t: Scalar, value: str, ptr: str, space: int = 0, align: int = 0) -> None:
        if t.is_bool:
            value = self.code.op(f"zext i1 {value} to i8", "byte")
        self.access(f"store {types.memory(t)} {value}, {_pointer(ptr, space)}, align {align or types.width(t)}")

    def load_word(self, type: str, ptr: str) -> str:
        """A part of a value, in memory of the thread's own."""
        x = self.code.op(f"load {'i8' if type == 'i1' else type}, ptr {ptr}, align 8")
        return self.code.op(f"icmp ne i8 {x}, 0", "c") if type == "i1" else x

    def store_word(self, type: str, x: str, ptr: str) -> None:
        if type == "i1":
            type, x = "i8", self.code.op(f"zext i1 {x} to i8")
        self.code.do(f"store {type} {x}, ptr {ptr}, align 8")

    def atomic_add(self, t: Scalar, value: str, ptr: str) -> None:
        """Add to an element that other threads add to as well."""
        name = "fadd" if t.is_float else "add"
        self.access(f"atomicrmw {name} ptr {ptr}, {types.memory(t)} {value} monotonic, align {types.width(t)}")

    def atomic_max(self, t: Scalar, value: str, ptr: str) -> None:
        """Replace an element by the greater of the two; ``t`` is a type of integers."""
        self.access(f"atomicrmw max ptr {ptr}, {types.memory(t)} {value} monotonic, align {types.width(t)}")

    def offset(self, ptr: str, count: str, of: str = "i8") -> str:
        if count == "0":
            return ptr
        return self.code.op(f"getelementptr inbounds {of}, ptr {ptr}, i64 {count}", "at")

    def address(self, b: Memory, at: Sequence[str]) -> str:
        """The address of an element."""
        if b.strides is None:
            index = at[0]
            for i, n in zip(at[1:], b.sizes[1:]):
                index = self.add(self.mul(index, n), i)
            index = self.mul(index, b.unit)
        else:
            index = "0"
            for i, s in zip(at, b.strides):
                index = self.add(index, self.mul(i, s))
        return self.offset(b.ptr, index, types.memory(b.dtype))

    def strides(self, b: Memory) -> list[str]:
        """The stride of each axis, in elements."""
        if b.strides is not None:
            return list(b.strides)
        out = [b.unit]
        for n in reversed(b.sizes[1:]):
            out.insert(0, self.mul(n, out[0]))
        return out

    def shared_array(self, name: str, t: Scalar, count: int) -> str:
        """The name of an array in memory that a block shares."""
        return self.writer.global_(name, f"internal addrspace(3) global [{count} x {types.memory(t)}] undef")

    def shared_at(self, array: str, t: Scalar, index: str) -> str:
        """The address of an element of such an array."""
        return self.code.op(f"getelementptr inbounds {types.memory(t)}, ptr addrspace(3) {array}, i64 {index}")

    # --- integers -----------------------------------------------------------------------------------

    def add(self, x: str, y: str) -> str:
        return y if x == "0" else x if y == "0" else self._int("add", x, y, lambda a, b: a + b)

    def sub(self, x: str, y: str) -> str:
        return x if y == "0" else self._int("sub", x, y, lambda a, b: a - b)

    def mul(self, x: str, y: str) -> str:
        if "1" in (x, y):
            return y if x == "1" else x
        return "0" if "0" in (x, y) else self._int("mul", x, y, lambda a, b: a * b)

    def divided(self, x: str, by: int) -> str:
        """``x``, which is not negative, divided by a literal."""
        return x if by == 1 or x == "0" else self.code.op(f"udiv i64 {x}, {by}")

    def product(self, sizes: Sequence[str]) -> str:
        out = "1"
        for n in sizes:
            out = self.mul(out, n)
        return out

    def _int(self, name: str, x: str, y: str, known: Callable[[int, int], int]) -> str:
        if x[0] != "%" and y[0] != "%":
            return str(known(int(x), int(y)))
        return self.code.op(f"{name} i64 {x}, {y}", "n")

    def larger(self, x: str, y: str) -> str:
        return self.code.op(f"call i64 {self.writer.declare('llvm.smax.i64', 'i64', 'i64, i64')}(i64 {x}, i64 {y})")

    # --- the grid -----------------------------------------------------------------------------------

    def number(self, name: str) -> str:
        """``thread``, ``block``, ``block_size`` or ``grid_size`` as an i64."""
        return self.code.op(f"zext nneg i32 {self.special(name)} to i64", name)

    def special(self, name: str) -> str:
        return self.code.op(f"call i32 {self.writer.declare(f'gpu.{name}', 'i32', '', self._pure())}()", name)

    def _pure(self) -> str:
        return self.writer.attributes("memory(none) nounwind willreturn")

    def barrier(self) -> None:
        convergent = self.writer.attributes("convergent nounwind")
        self.code.do(f"call void {self.writer.declare('gpu.barrier', 'void', '', convergent)}()")

    def ballot(self, condition: str) -> str:
        """A bit for each lane of the warp in which a condition holds."""
        convergent = self.writer.attributes("convergent nounwind")
        return self.code.op(f"call i32 {self.writer.declare('gpu.ballot', 'i32', 'i1', convergent)}(i1 {condition})")

    # --- control ------------------------------------------------------------------------------------

    def loop(self, start: str, end: str, step: str, body: Body, carried: Sequence[tuple[str, str]] = (),
             downwards: bool = False, either: bool = False) -> list[str]:
        """``for i in range(start, end, step)``; returns the carried values (LLVM type, first value) after it.

        ``downwards``: the step is negative; ``either``: its sign is not known.
        """
        code = self.code
        head, inside, done, before = code.label("head"), code.label("body"), code.label("done"), code.here
        code.jump(head)
        phis = [code.phi(t, head, "i" if k == 0 else "p") for k, t in enumerate(["i64", *(t for t, _ in carried)])]
        for phi, first in zip(phis, [start, *(x for _, x in carried)]):
            code.add_incoming(phi, first, before)
        code.start(head)
        code.branch(self._goes_on(phis[0], end, step, downwards, either), inside, done)
        code.start(inside)
        nexts = list(body(phis[0], phis[1:]))
        following = code.op(f"add i64 {phis[0]}, {step}", "i")
        for phi, x in zip(phis, [following, *nexts]):
            code.add_incoming(phi, x)
        code.jump(head)
        code.start(done)
        return phis[1:]

    def _goes_on(self, i: str, end: str, step: str, downwards: bool, either: bool) -> str:
        code = self.code
        below = code.op(f"icmp {'sgt' if downwards else 'slt'} i64 {i}, {end}", "c")
        if not either:
            return below
        above = code.op(f"icmp sgt i64 {i}, {end}", "c")
        return code.op(f"select i1 {code.op(f'icmp sgt i64 {step}, 0', 'c')}, i1 {below}, i1 {above}", "c")

    def where(self, condition: str, t: Scalar, otherwise: str | Callable[[], str], value: Callable[[], str]) -> str:
        """A value that is computed only where a condition holds; so is ``otherwise`` where it does not."""
        code = self.code
        yes, after, before = code.label("inside"), code.label("known"), code.here
        no = after if isinstance(otherwise, str) else code.label("outside")
        x = code.phi(types.register(t), after)
        code.branch(condition, yes, no)
        if isinstance(otherwise, str):
            code.add_incoming(x, otherwise, before)
        else:
            code.start(no)
            code.add_incoming(x, otherwise())
            code.jump(after)
        code.start(yes)
        code.add_incoming(x, value())
        code.jump(after)
        code.start(after)
        return x

    def if_(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        yes, after = self.code.label("then"), self.code.label("after")
        no = after if otherwise is None else self.code.label("else")
        self.code.branch(condition, yes, no)
        for label, run in ((yes, then), (no, otherwise)):
            if run is not None:
                self.code.start(label)
                run()
                self.code.jump(after)
        self.code.start(after)


def _pointer(ptr: str, space: int) -> str:
    return f"ptr addrspace({space}) {ptr}" if space else f"ptr {ptr}"
