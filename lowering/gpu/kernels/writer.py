"""The common part of all kernels: parameters, the threads of the grid, the status.

Parameters of every kernel, in order: the status; if it needs them, the *arena*, the memory of all threads, with the
bytes and the words that each of them has (``device/thread.py``), and the depth of recursion; what it is given.  A
kernel does nothing if the status tells of a failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import Loc
from ....ir.graph import Function
from ....ir.types import Scalar
from ...llvm.emit import global_name
from ..device.emitter import Emitter, Shared
from ..device.thread import WORDS, Thread
from ..device.values import Part, assemble, parts_of
from ..image import Kernel

Known = tuple[int | None, int | None]
"""The first index of a loop and its step, as far as they are literal."""
Resident = tuple[Sequence[int], Sequence[int]]
"""The carried and the captured scalars, by number, of which the address is passed."""


class KernelWriter(Emitter):
    """Writes one kernel."""

    def __init__(self, shared: Shared, name: str, loc: Loc, block: int) -> None:
        super().__init__(shared)
        self.name, self.loc, self.block, self.stack = name, loc, block, 0
        self.params: list[tuple[str, str]] = []
        self.status = self.param("ptr", "status")

    def param(self, type: str, hint: str) -> str:
        name = f"%{hint}{len(self.params)}"
        self.params.append((type, name))
        return name

    def given(self, t: object, hint: str, resident: bool = False) -> Part:
        """A parameter for each part of a value; a bool is passed as a byte.

        ``resident``: of a scalar that an earlier kernel has computed, the address is passed.
        """
        if resident:
            return self.load(as_scalar(t), self.param("ptr", hint))
        return assemble(t, [self._bool(self.param("i8", hint)) if kind == "i1" else self.param(kind, hint)
                            for kind in parts_of(t)])

    def _bool(self, byte: str) -> str:
        return self.code.op(f"icmp ne i8 {byte}, 0", "c")

    def write(self) -> Kernel:
        self.code.end("ret void")
        head = ", ".join(f"{kind} {name}" for kind, name in self.params)
        self.writer.function(self.name, f"define void {global_name(self.name)}({head}) {{\n{self.code.text()}\n}}\n")
        kinds = {"double": "f64", "float": "f32"}
        return Kernel(self.name, tuple(kinds.get(kind, kind) for kind, _ in self.params), self.block, self.loc,
                      self.stack)

    # --- the grid -----------------------------------------------------------------------------------

    def first(self) -> str:
        """The number of this thread in the grid."""
        before = self.code.op(f"mul nuw nsw i64 {self.number('block')}, {self.block}", "n")
        return self.code.op(f"add nuw nsw i64 {before}, {self.number('thread')}", "n")

    def threads(self) -> str:
        return self.code.op(f"mul nuw nsw i64 {self.number('grid_size')}, {self.block}", "n")

    def bounds(self, known: Known) -> tuple[str, str, str]:
        """Parameters for the first index, the number of iterations and the step of a loop, or literals."""
        lower, step = ("" if x is None else str(x) for x in known)
        first = lower or self.param("i64", "lower")
        count = self.param("i64", "count")
        return first, count, step or self.param("i64", "step")

    def may_fail(self, func: Function) -> bool:
        """True if a device function uses the words of its thread."""
        ops = [op.name for b in func.blocks for op in b.nested_ops()]
        return any(name in ("check", "raise", "call", "push", "pop", "alloc") for name in ops)

    def unless_failed(self, count: str) -> str:
        """``count``, or 0 if some thread has failed: the same in all threads of a warp matters, of a block does not."""
        return self.code.op(f"select i1 {self.failed()}, i64 0, i64 {count}", "count")

    def failed(self) -> str:
        """True if some thread has failed."""
        name = self.writer.declare("gpu_failed", "i1", "ptr")
        return self.code.op(f"call i1 {name}(ptr {self.status})", "failed")

    def context(self, arena: tuple[str, str, str] | None, depth: str, first: str, threads: str) -> str:
        """The words of the thread; ``arena``: its address, the bytes and the words for each thread."""
        ctx = self.code.alloca("i64", len(WORDS))
        thread = Thread(self, ctx)
        base, strip, words = arena or ("null", "0", "0")
        frames = self.offset(base, self.mul(strip, threads)) if arena else base
        top = self.add(self.code.op(f"ptrtoint ptr {base} to i64"), self.mul(first, strip)) if arena else "0"
        state = {"status": self.status, "top": top, "end": self.add(top, strip), "frame": "1", "limit": words,
                 "base": self.offset(frames, self.mul(first, "8")) if arena else base,
                 "stride": self.mul(threads, "8"), "depth": depth}
        for name, x in state.items():
            thread.set(name, x)
        return ctx


def indices(w: Emitter, i: str, bounds: Sequence[tuple[str, ...]]) -> list[str]:
    """The indices of iteration ``i`` of loops within one another, the last of which runs fastest."""
    out: list[str] = []
    for position, (lower, count, step) in enumerate(reversed(bounds)):
        outermost = position == len(bounds) - 1
        k = i if outermost else w.code.op(f"urem i64 {i}, {count}", "k")
        i = i if outermost else w.code.op(f"udiv i64 {i}, {count}", "k")
        out.insert(0, w.add(lower, w.mul(k, step)))
    return out


def as_scalar(t: object) -> Scalar:
    assert isinstance(t, Scalar)
    return t
