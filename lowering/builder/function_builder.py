"""The base of all lowering code: the state of the function being written, and the helpers for writing it.

``FunctionBuilder`` holds the code written so far, the LLVM names of the IR values (``values``) and the plans
(``plan``, ``places``).  It writes loads, integer arithmetic, loops, branches, calls and checks.  Its abstract methods
need parts of the lowering above this folder: memory for an array, and polls in loops.  ``FunctionLowering``, at the
top, implements them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ...ir.graph import Block, ExcInfo, External, Function, Op, Value
from ...ir.types import Array, Scalar, Type
from ...passes.analysis.cost import LANES
from ...passes.analysis.loops import loop_forest
from ..llvm import context, types
from ..llvm.code import Code
from ..llvm.emit import Writer, global_name, symbol
from ..llvm.types import Buffer, Lowered
from ..planning.array_plan import plan
from ..planning.buffer_placement import Places, made_in_place
from . import fixed_width_vectors
from .module_builder import ModuleBuilder

Body = Callable[[str, list[str]], Sequence[str]]
VECTORS = frozenset({"8", str(LANES)})
"""The numbers of iterations that are vectors of that many elements."""


def unlikely(writer: Writer) -> str:
    """Metadata for a branch whose first target is rarely taken."""
    return ", !prof " + writer.node('!"branch_weights", i32 1, i32 1048576')


def likely(writer: Writer) -> str:
    """Metadata for a branch whose first target is nearly always taken."""
    return ", !prof " + writer.node('!"branch_weights", i32 1048576, i32 1')


class FunctionBuilder(ABC):
    """One function while it is written.

    ``body`` is its code.  ``code`` receives the instructions; it differs from ``body`` while a routine that ``body``
    calls is written.
    """

    def __init__(self, module: ModuleBuilder, func: Function) -> None:
        self.module, self.func = module, func
        self.writer, self.options, self.target = module.writer, module.options, module.target
        self.body = self.code = Code()
        self.values: dict[Value, Lowered] = {}
        self.parameters: dict[str, str] = {}             # the LLVM types of the parameters
        self.plan = plan(func, module.sharing)           # lazy and stored arrays
        self.forest = loop_forest(func)
        self.places = Places(func, self.plan, self.forest)
        self.in_place = made_in_place(func)              # allocations that are still to be written inline
        self.frame = 0                                   # bytes of arrays in the stack frame
        self.block: Block = func.entry                   # the block being lowered
        self.repeated: set[Op] = set()                   # products that are computed again where they are added
        self.loc = func.loc                              # the location of the op being lowered
        self.allocating: set[Block] = set()              # blocks that take memory from the arena
        # The attribute of a function that prefers the widest vectors.
        self.width = module.target.full_width if func.attrs.get("wide") else ""
        self.group = ""                                  # of the accesses of the current block to memory, if any
        self.failure = self.body.label("fail")
        self.status = self.body.phi("i32", self.failure, "status")

    # --- implemented above this folder -------------------------------------------------------------

    @abstractmethod
    def alloc(self, type: Array, sizes: Sequence[str], value: Value | None = None) -> Buffer:
        """A new, uninitialised array for ``value``, or (with None) a temporary for the current op.

        ``sizes`` of literal dimensions are taken from the type.
        """

    @abstractmethod
    def loop(self, n: str, body: Body, carried: Sequence[tuple[str, str]] = (), hint: str = "l",
             note: str = "", each: str = "1", unbounded: bool = False) -> list[str]:
        """``for i in range(n)``: emits the loop, guarded and rotated, and returns the final carried values.

        ``carried`` is a list of (LLVM type, initial name); ``body(i, values)`` emits the body at ``code`` and returns
        the next values.  ``note`` goes on the back edge (``", !llvm.loop !4"``).  The body may start blocks.  An
        iteration processes ``each`` elements; with ``unbounded``, of an array that may have more elements than any in
        memory.
        """

    @abstractmethod
    def count_iterations(self, n: str, each: str) -> None:
        """Count ``n`` iterations over ``each`` elements, which do not poll, towards the enclosing loop's poll."""

    # --- values -----------------------------------------------------------------------------------

    def scalar(self, v: Value) -> str:
        """The LLVM name of a scalar (or stack) value."""
        name = self.values[v]
        assert isinstance(name, str), v
        return name

    def array(self, v: Value) -> Buffer:
        """The buffer of an array value."""
        buffer = self.values[v]
        assert isinstance(buffer, Buffer), v
        return buffer

    # --- memory -----------------------------------------------------------------------------------

    def address(self, t: Scalar, ptr: str, index: str) -> str:
        """The address of element ``index`` of the array at ``ptr``."""
        if index == "0":
            return ptr
        return self.code.address(types.memory(t), ptr, index, hint="at")

    def load(self, t: Scalar, ptr: str, index: str = "0", note: str = "") -> str:
        """Element ``index`` of the array at ``ptr``; ``note`` is metadata as text (``", !alias.scope !3"``)."""
        at = self.address(t, ptr, index)
        note = self.writer.grouped(note, self.group) if self.group else note
        x = self.code.load(types.memory(t), at, types.width(t), note, hint="x")
        return self.code.icmp("ne", "i8", x, "0", hint="c") if t.is_bool else x

    def store(self, t: Scalar, value: str, ptr: str, index: str = "0", note: str = "") -> None:
        """Store ``value`` in element ``index`` of the array at ``ptr``."""
        at = self.address(t, ptr, index)
        if t.is_bool:
            value = self.code.cast("zext", "i1", value, "i8", hint="byte")
        note = self.writer.grouped(note, self.group) if self.group else note
        self.code.store(types.memory(t), value, at, types.width(t), note)

    def field(self, name: str) -> str:
        """Pointer to a field of the context."""
        return self.code.address("i8", "%ctx", context.offset(name), hint="field")

    def allocates(self) -> None:
        """Record that the current block takes memory from the arena."""
        self.allocating.add(self.block)

    # --- i64 arithmetic on sizes and indices, folded if literal -------------------------------------

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
        """The product of sizes; ``"1"`` if there are none."""
        out = "1"
        for s in sizes:
            out = self.mul(out, s)
        return out

    def _int(self, name: str, x: str, y: str, known: Callable[[int, int], int]) -> str:
        if x[0] != "%" and y[0] != "%":
            return str(known(int(x), int(y)))
        return self.code.arith(name, "i64", x, y, flags="nsw", hint="n")

    # --- control ----------------------------------------------------------------------------------

    def plain_loop(self, n: str, body: Body, carried: Sequence[tuple[str, str]] = (), hint: str = "l", note: str = "",
                   start: str = "") -> list[str]:
        """``for i in range(start, n)``, without polls.  If ``start`` is given, the first iteration is not guarded."""
        code, inits = self.code, [name for _, name in carried]
        head, done, before = code.label(hint), code.label("done"), code.here
        outs = [code.phi(t, done) for t, _ in carried]
        if start or (n[0] != "%" and int(n) > 0):
            code.jump(head)
        else:
            code.branch(code.icmp("sgt", "i64", n, "0", hint="c"), head, done)
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
        step = code.arith("add", "i64", i, "1", flags="nuw nsw", hint="i")
        for phi, value in zip([i, *phis], [step, *nexts]):
            code.add_incoming(phi, value)
        for out, value in zip(outs, nexts):
            code.add_incoming(out, value)
        code.branch(code.icmp("slt", "i64", step, n, hint="c"), head, done,
                    self._whole_vectors(n) or note or self.writer.loop_note())
        code.start(done)
        return outs

    def _whole(self, n: str, start: str, head: str, i: str, carried: list[tuple[str, str, str, str]],
               outs: list[str]) -> bool:
        """Rewrite the body of the current loop with fixed-width vectors.  Returns False if that is not possible."""
        code = self.code
        if n not in VECTORS or start or not self.target.vector_bits:
            return False
        if code.here != head or not code.is_plain(head):
            return False
        found = fixed_width_vectors.vectors(self.writer, code, code.block(head), i, carried, int(n))
        if found is None:
            return False
        code.drop_phis(head)
        code.replace(head, found[0])
        for out, final in zip(outs, found[1]):
            code.add_incoming(out, final)
        self.width = self.target.full_width
        return True

    def _whole_vectors(self, n: str) -> str:
        """Metadata for a loop over ``VECTORS``, to be vectorised without a loop; ``""`` for other loops."""
        bits = self.target.vector_bits
        if n not in VECTORS or not bits or int(n) * 64 < bits:
            return ""
        self.width = self.target.full_width
        return self.writer.vector_note(int(n) * 64 // bits)

    def if_(self, condition: str, then: Callable[[], None], rare: bool = False) -> None:
        """Emit ``then`` under a condition; ``rare`` marks it as unlikely."""
        yes, after = self.code.label("then"), self.code.label("after")
        self.code.branch(condition, yes, after, unlikely(self.writer) if rare else "")
        self.code.start(yes)
        then()
        self.code.jump(after)
        self.code.start(after)

    def either(self, condition: str, then: Callable[[], None], other: Callable[[], None]) -> None:
        """Emit ``then`` and ``other`` under a condition and its negation."""
        labels, done = [self.code.label(hint) for hint in ("then", "else")], self.code.label("done")
        self.code.branch(condition, *labels)
        for label, emit in zip(labels, (then, other)):
            self.code.start(label)
            emit()
            self.code.jump(done)
        self.code.start(done)

    # --- calls and failures -------------------------------------------------------------------------

    def call(self, callee: Function, values: Sequence[Lowered]) -> list[Lowered]:
        """Call a function and propagate a failure; returns the results."""
        return self.call_symbol(global_name(symbol(callee.name)), callee.param_types, callee.result_types, values)

    def call_external(self, callee: External, values: Sequence[Lowered]) -> list[Lowered]:
        """Call a function of another module; its exceptions have numbers of their own in this one."""
        kinds = ", ".join(["ptr", *(t for kind in callee.params for t in types.parts_of(kind))])
        name = self.writer.declare(callee.symbol, types.result_struct(callee.results), kinds, "nounwind")
        return self.call_symbol(name, callee.params, callee.results, values, callee.exceptions)

    def call_symbol(self, name: str, params: Sequence[Type], result_types: Sequence[Type], values: Sequence[Lowered],
                    exceptions: int = 0) -> list[Lowered]:
        """Call ``name``; ``exceptions``: what is added to the number of an exception."""
        code = self.code
        struct = types.result_struct(result_types)
        args = [("ptr", "%ctx")]
        for kind, value in zip(params, values):
            args += zip(types.parts_of(kind), types.split(value))
        out = code.call(struct, name, *args, hint="r")
        status = code.extract("i32", struct, out, 0, hint="status")
        good = code.icmp("eq", "i32", status, "0", hint="c")
        if exceptions:                                       # shortages, which are negative, are the same everywhere
            moved = code.arith("add", "i32", status, str(exceptions))
            status = code.select(code.icmp("sgt", "i32", status, "0"), "i32", moved, status)
        results: list[Lowered] = []
        i = 1
        for t in result_types:
            parts = []
            for part in types.parts_of(t):
                parts.append(code.extract(part, struct, out, i))
                i += 1
            results.append(types.assemble(t, parts))
        self.require(good, status)
        if not all(isinstance(t, Scalar) for t in result_types):
            self.allocates()
        return results

    def require(self, condition: str, status: int | str) -> None:
        """Return ``status`` from the function unless ``condition`` holds."""
        if condition == "true":
            return
        code, go_on = self.body, self.body.label("ok")
        code.add_incoming(self.status, str(status))
        code.branch(condition, go_on, self.failure, likely(self.writer))
        code.start(go_on)

    def shortage(self, status: int) -> int:
        """The status for a shortage of memory or stack, specific to the user's line if that is known."""
        loc = self.func.loc if status == context.RECURSION else self.loc
        if not loc.line:
            return status
        module = self.module
        if (status, loc) not in module.shortages:
            known = module.module
            known.shortages.append(ExcInfo(*context.SHORTAGES[status], loc))
            module.shortages[status, loc] = len(known.exceptions) + len(known.shortages)
        return module.shortages[status, loc]

    def fail(self, status: int) -> None:
        """End the current block by returning ``status``."""
        self.body.add_incoming(self.status, str(status))
        self.body.jump(self.failure)

    def write_failure_exit(self) -> None:
        """Write the block to which all failures branch, which returns the status."""
        code, struct = self.body, types.result_struct(self.func.result_types)
        code.start(self.failure)
        code.ret(struct, code.insert(struct, "poison", "i32", self.status, 0, hint="r"))
