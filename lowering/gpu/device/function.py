"""One device function: blocks, terminators, loops, calls, failures.

``%r = call { i32, … } @f(ptr %ctx, …)``: the first part of the result is 0, or 1 if the function failed; the status
then says why, and callers return at once.  What a function allocates is released on return if no result holds memory,
and at the end of each iteration of a loop that carries none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....errors import UnsupportedError
from ....ir.dominance import Dominators
from ....ir.graph import Block, Edge, Function, Op, Value
from ....ir.ops import OPS as IR_OPS
from ....ir.types import Stack
from ....loop_level.types import Buffer, Vector, type_of
from ....passes.analysis.loops import Loop, loop_forest
from ...llvm.emit import global_name
from ...math import ops
from . import memory, products, stacks
from .emitter import Emitter, Shared
from .thread import RECURSION_ERROR, Thread, words_of_message
from .values import Part, assemble, parts_of, result_struct, split, zero

ADDS = ".adds"


def device_name(name: str) -> str:
    """The symbol of a function, in ASCII."""
    return "d." + "".join(c if c.isascii() and (c.isalnum() or c in "._") else f"u{ord(c):x}" for c in name)


def write_function(shared: Shared, func: Function, adding: frozenset[int] = frozenset()) -> str:
    """Add a function to the module; returns its ``@name``.

    ``adding``: the parameters that are buffers to which all threads add; the name then ends in ``ADDS``.
    """
    return DeviceFunction(shared, func, adding).write()


class DeviceFunction(Emitter):
    """Writes one function of the loop level; ``suffix``: the end of its name, if there are several versions."""

    suffix = ""

    def __init__(self, shared: Shared, func: Function, adding: frozenset[int] = frozenset()) -> None:
        super().__init__(shared)
        self.func, self.thread = func, Thread(self)
        self.recursive = func.name in shared.recursive
        self.failure = self.code.label("fail")
        self.atomic = memory.additions(func, adding)
        self.interleaved = memory.interleaved(func)
        self.labels: dict[Block, str] = {}
        self.phis: dict[Block, list[str]] = {}
        self.marks = {loop: self.code.alloca("i64", 2) for loop in loop_forest(func).loops if _releases(loop)}
        self.here: Block = func.entry

    def write(self) -> str:
        func, name = self.func, device_name(self.func.name) + (ADDS if self.atomic.added else self.suffix)
        params = [f"ptr {self.thread.ctx}"]
        for k, p in enumerate(func.params):
            names = [f"%a{k}.{i}" for i in range(len(parts_of(p.type)))]
            params += [f"{t} {x}" for t, x in zip(parts_of(p.type), names)]
            self.values[p] = assemble(p.type, names)
        struct = result_struct(func.result_types)
        self._body()
        self.code.start(self.failure)
        self.code.end(f"ret {struct} {self.code.op(f'insertvalue {struct} zeroinitializer, i32 1, 0', 'r')}")
        head = f"define internal {struct} {global_name(name)}({', '.join(params)}) nounwind"
        return self.writer.function(name, f"{head} {{\n{self.code.text()}\n}}\n")

    def _body(self) -> None:
        if self.recursive:
            depth = self.thread.get("depth")
            self.require(self.code.op(f"icmp sgt i64 {depth}, 0", "c"), str(RECURSION_ERROR))
            self.thread.set("depth", self.sub(depth, "1"))
        allocates = any(_allocates(op) for b in self.func.blocks for op in b.nested_ops())
        self.mark = self.thread.marks() if allocates else None
        order = list(Dominators(self.func).preorder())
        for block in order[1:]:
            label = self.labels[block] = self.code.label("b")
            self.phis[block] = []
            for p in block.params:
                phis = [self.code.phi(t, label) for t in parts_of(p.type)]
                self.phis[block] += phis
                self.values[p] = assemble(p.type, phis)
        for block in order:
            if block in self.labels:
                self.code.start(self.labels[block])
            self.here = block
            for op in block.ops:
                self.op(op)
            assert block.term is not None
            self.loc = block.term.loc
            _TERMINATORS[block.term.name](self, block.term)

    # --- ops ----------------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        self.loc = op.loc
        if op in self.atomic.skipped:
            return
        if op.name in IR_OPS and (IR_OPS[op.name].elementwise or op.name == "const"):
            if isinstance(type_of(op.result), Vector):
                refuse(op)
            self.values[op.result] = ops.scalar(self, op, [self.scalar(v) for v in op.operands])
        elif op.name in _RULES:
            _RULES[op.name](self, op)
        else:
            refuse(op)

    def undef(self, op: Op) -> None:
        t = type_of(op.result)
        self.values[op.result] = assemble(t, list(map(zero, parts_of(t))))

    def store_op(self, op: Op) -> None:
        v, b, *at = op.operands
        where = self.address(self.memory(b), [self.scalar(i) for i in at])
        t = self.memory(b).dtype
        if op in self.atomic.added:
            x, negative = self.atomic.added[op]
            term = self.scalar(x)
            self.atomic_add(t, ops.TABLE["neg"](self, t, [term], "") if negative else term, where)
        else:
            self.store(t, self.scalar(v), where)

    def check(self, op: Op) -> None:
        self.require(self.scalar(op.operands[0]), str(op.attrs["exc"] + 1), op)

    def require(self, condition: str, code: str, op: Op | None = None) -> None:
        """Fail with ``code`` unless ``condition`` holds; ``op`` has the numbers of the message."""
        good, bad = self.code.label("ok"), self.code.label("bad")
        self.code.branch(condition, good, bad)
        self.code.start(bad)
        self.thread.tell(code, words_of_message(self, op, 1) if op is not None else [])
        self.code.jump(self.failure)
        self.code.start(good)

    def for_(self, op: Op) -> None:
        """A loop with a region."""
        body = op.regions[0]
        term = body.term
        assert term is not None
        lower, upper, step = (self.scalar(v) for v in op.operands[:3])
        kinds = [t for v in op.operands[3:] for t in parts_of(v.type)]
        start = [x for v in op.operands[3:] for x in split(self.value(v))]
        known = op.operands[2].const
        releases = not any(map(_holds_memory, op.operands[3:])) and any(map(_allocates, body.nested_ops()))
        marks = self.thread.marks() if releases else None

        def run(i: str, carried: list[str]) -> list[str]:
            self.values[body.params[0]] = i
            self.define(body.params[1:], carried)
            for inner in body.ops:
                self.op(inner)
            if marks is not None:
                self.thread.release(marks)
            return [x for v in term.operands for x in split(self.value(v))]
        out = self.loop(lower, upper, step, run, list(zip(kinds, start)), downwards=known is not None and known < 0,
                        either=known is None)
        self.define(op.results, out)

    def define(self, vs: Sequence[Value], parts: Sequence[str]) -> None:
        """Set the values with these parts."""
        rest = iter(parts)
        for v in vs:
            self.values[v] = assemble(v.type, [next(rest) for _ in parts_of(v.type)])

    # --- terminators --------------------------------------------------------------------------------

    def _leave(self, edge: Edge, results: Sequence[str] = ()) -> None:
        """Jump along an edge; where it enters a loop or goes back to its head, memory is marked or released."""
        loop = next((x for x in self.marks if x.head is edge.block), None)
        if loop is not None:
            places = [self.marks[loop], self.offset(self.marks[loop], "8")]
            if self.here in loop.blocks:
                first, second = (self.load_word("i64", at) for at in places)
                self.thread.release((first, second))
            else:
                for at, x in zip(places, self.thread.marks()):
                    self.store_word("i64", x, at)
        given = [*results, *(x for v in edge.args for x in split(self.value(v)))]
        for phi, x in zip(self.phis[edge.block], given, strict=True):
            self.code.add_incoming(phi, x)
        self.code.jump(self.labels[edge.block])

    def _ways(self, op: Op) -> list[str]:
        """A label for each edge of a terminator: a block of its own, since two edges may lead to one block."""
        return [self.code.label("way") for _ in op.edges]

    def _follow(self, op: Op, ways: list[str]) -> None:
        for way, edge in zip(ways, op.edges):
            self.code.start(way)
            self._leave(edge)

    def jump(self, op: Op) -> None:
        self._leave(op.edges[0])

    def branch(self, op: Op) -> None:
        ways = self._ways(op)
        self.code.branch(self.scalar(op.operands[0]), *ways)
        self._follow(op, ways)

    def switch(self, op: Op) -> None:
        *cases, default = ways = self._ways(op)
        listed = " ".join(f"i64 {k}, label %{c}" for k, c in enumerate(cases))
        self.code.end(f"switch i64 {self.scalar(op.operands[0])}, label %{default} [ {listed} ]")
        self._follow(op, ways)

    def call(self, op: Op) -> None:
        callee = self.shared.module.functions[op.attrs["callee"]]
        out, status = call(self, callee, self.thread.ctx, [self.value(v) for v in op.operands])
        good = self.code.label("ok")
        self.code.branch(self.code.op(f"icmp eq i32 {status}, 0", "c"), good, self.failure)
        self.code.start(good)
        self._leave(op.edges[0], out())

    def return_(self, op: Op) -> None:
        if self.recursive:
            self.thread.set("depth", self.add(self.thread.get("depth"), "1"))
        if self.mark is not None and not any(map(_holds_memory, op.operands)):
            self.thread.release(self.mark)
        struct, kinds, parts = result_struct(self.func.result_types), ["i32"], ["0"]
        for v, t in zip(op.operands, self.func.result_types):
            parts += split(self.value(v))
            kinds += parts_of(t)
        out = "poison"
        for i, (kind, x) in enumerate(zip(kinds, parts, strict=True)):
            out = self.code.op(f"insertvalue {struct} {out}, {kind} {x}, {i}")
        self.code.end(f"ret {struct} {out}")

    def raise_(self, op: Op) -> None:
        self.thread.tell(str(op.attrs["exc"] + 1), words_of_message(self, op, 0))
        self.code.jump(self.failure)


def call(e: Emitter, callee: Function, ctx: str, args: Sequence[Part], suffix: str = ""
         ) -> tuple[Callable[[], list[str]], str]:
    """Call a device function; returns what emits the parts of its results, and its status."""
    struct = result_struct(callee.result_types)
    given = [f"ptr {ctx}"]
    for t, x in zip(callee.param_types, args, strict=True):
        given += [f"{kind} {part}" for kind, part in zip(parts_of(t), split(x), strict=True)]
    out = e.code.op(f"call {struct} {global_name(device_name(callee.name) + suffix)}({', '.join(given)})", "r")
    count = sum(len(parts_of(t)) for t in callee.result_types)

    def results() -> list[str]:
        return [e.code.op(f"extractvalue {struct} {out}, {i + 1}") for i in range(count)]
    return results, e.code.op(f"extractvalue {struct} {out}, 0", "status")


def refuse(op: Op) -> None:
    raise UnsupportedError(f"a GPU's thread cannot run {op.name}", op.loc)


def _holds_memory(v: Value) -> bool:
    return isinstance(type_of(v), (Buffer, Stack))


def _allocates(op: Op) -> bool:
    return op.name in ("push", "call") or op.name == "alloc" and op.attrs["kind"] != "frame"


def _releases(loop: Loop) -> bool:
    """True if what an iteration allocates is garbage after it."""
    return not any(map(_holds_memory, loop.head.params)) and any(
        _allocates(op) for b in loop.blocks for op in b.nested_ops())


def _dim(fn: DeviceFunction, op: Op) -> None:
    fn.values[op.result] = fn.memory(op.operands[0]).sizes[op.attrs["axis"]]


def _load(fn: DeviceFunction, op: Op) -> None:
    b, *at = op.operands
    if isinstance(type_of(op.result), Vector):
        refuse(op)
    fn.values[op.result] = fn.load(fn.memory(b).dtype, fn.address(fn.memory(b), [fn.scalar(i) for i in at]))


_RULES: dict[str, Callable[[DeviceFunction, Op], None]] = {
    "undef": DeviceFunction.undef, "check": DeviceFunction.check, "for": DeviceFunction.for_,
    "store": DeviceFunction.store_op, "load": _load, "dim": _dim,
    "alloc": memory.alloc, "view": memory.view, "reshape": memory.reshape, "retype": memory.retype,
    "matmul": products.matmul, "stack_empty": stacks.empty, "push": stacks.push, "pop": stacks.pop,
}
_TERMINATORS: dict[str, Callable[[DeviceFunction, Op], None]] = {
    "jump": DeviceFunction.jump, "branch": DeviceFunction.branch, "switch": DeviceFunction.switch,
    "call": DeviceFunction.call, "return": DeviceFunction.return_, "raise": DeviceFunction.raise_,
}
COVERED = frozenset(_RULES) | {"const"} | {name for name, op in IR_OPS.items() if op.elementwise}
"""The ops of the loop level that a thread can run."""
