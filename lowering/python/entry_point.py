"""The entry point: a CPython function in LLVM IR.

::

    PyObject *entry(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)

It tests that the call has the shape for which it was compiled, reads the arguments (``unbox``), tests the guards on
captured state (``guards``), and takes a context.  Then it runs the compiled function, which LLVM inlines if it has
neither loops nor arrays, and makes the results (``box``).  In any other case it continues at the next entry; the last
one is Python, which converts arguments or compiles.

``context_pool`` provides the context, and releases the GIL during the body if the body may take long (``effort``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.types import Array
from ..llvm import capi, context, float_state, types
from ..llvm.capi import function, pointer
from ..llvm.code import Assembly
from ..llvm.emit import Writer, global_name, symbol
from ..memory import result_buffers
from ..planning.buffer_placement import is_small
from .box import Boxer, Computed, Fixed, Leaf, buildable
from .callable import LAST
from .context_pool import Lease
from .entry import Entry
from .guards import Reads
from .unbox import Unboxer, runs_python


def write(writer: Writer, entry: Entry) -> str:
    """Adds the entry point to a module that contains the compiled function; returns its symbol."""
    if entry.build is None and not buildable(entry.result):
        raise ValueError(f"machine code cannot build {entry.result}")
    return _EntryWriter(writer, entry).write()


class _EntryWriter:
    def __init__(self, writer: Writer, entry: Entry) -> None:
        self.writer, self.entry = writer, entry
        self.code = code = Assembly()
        self.likely = ", !prof " + writer.node('!"branch_weights", i32 4000, i32 1')
        self.miss, self.failed, self.unmade = code.label("miss"), code.label("failed"), code.label("unmade")
        wary = any(a.structure is not None and runs_python(a.structure) for a in entry.arguments)
        self.unboxer = Unboxer(code, self.miss, self.likely, wary)
        self.unboxer.rare = ", !prof " + writer.node('!"branch_weights", i32 1, i32 4000')
        self.unboxer.loop_note = lambda: writer.loop_note(cold=True)
        self.boxer = Boxer(writer, code, self.unmade, self.likely)
        arrays = any(isinstance(t, Array) and not is_small(t) for t in entry.function.result_types)
        self.lease = Lease(writer, code, self.likely, entry.effort, result_buffers.available() and arrays)

    def write(self) -> str:
        self.writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        parts = self.arguments()
        self.code.do(f"store ptr {capi.memory(self.entry.mark)}, ptr {self.boxer.at('%callable', LAST)}, align 8")
        ctx = self.lease.take(self.unboxer.held)
        self.lease.prepare(ctx, self.entry.recursive)
        self.lease.lend_blocks(ctx)
        self.boxer.context = ctx if self.lease.blocks else ""
        results = self.run(ctx, parts)
        made = self.results(results)
        self.lease.trim(ctx)
        self.lease.give_back(ctx, self.unboxer.drop_arrays())
        self.code.end(f"ret ptr {made}")
        self.failure(ctx, results[0])
        self.unmade_result(ctx)
        self.go_on()
        name = global_name(self.entry.name)
        # Optimising an entry, with the body inlined, takes 14 ms and more.  Not doing so costs a call up to 5 ns, which
        # matters for bodies without loops and arrays alone.
        attributes = "nounwind"
        if self.entry.effort != "short":
            attributes += f"{self.writer.vector_stack} noinline optnone"
        head = f"define ptr {name}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames) {attributes}"
        self.writer.function(self.entry.name, text := f"{head} {{\n{self.code.text()}\n}}\n")
        self.writer.outside(capi.symbols(text))
        return self.entry.name

    # --- arguments --------------------------------------------------------------------------------

    def arguments(self) -> list[str]:
        code, unboxer, entry = self.code, self.unboxer, self.entry
        n = code.op(f"and i64 %nargsf, {capi.NARGS_MASK}", "n")
        unboxer.require_equal("i64", n, str(entry.count))
        if entry.keywords:
            self.keywords()
        else:
            unboxer.require_equal("ptr", "%kwnames", "null")
        parts = []
        for a in entry.arguments:
            obj = pointer(a.value) if a.index is None else unboxer.load("ptr", "%args", 8 * a.index)
            parts += unboxer.argument(a, obj)
        if entry.guards or entry.captured:
            reads = Reads(unboxer, entry.guards, entry.captured, unboxer.objects, entry.effort != "short")
            entry.hints = reads.hints
            parts += reads.run()
        return parts

    def keywords(self) -> None:
        """Tests the names of keyword arguments by address, since they are interned strings."""
        unboxer, names = self.unboxer, self.entry.keywords
        unboxer.require(self.code.op("icmp ne ptr %kwnames, null", "c"))
        unboxer.require_equal("i64", unboxer.load("i64", "%kwnames", capi.VAR_SIZE), str(len(names)))
        for i, name in enumerate(names):
            unboxer.require_equal("ptr", unboxer.load("ptr", "%kwnames", capi.TUPLE_ITEMS + 8 * i), pointer(name))

    # --- the body ---------------------------------------------------------------------------------

    def run(self, ctx: str, parts: Sequence[str]) -> list[str]:
        """Calls the compiled function; returns the status and the parts of the results."""
        code, entry, f = self.code, self.entry, self.entry.function
        state = self.lease.release_gil([*self.unboxer.sizes, *self.unboxer.counts])
        kinds = [p for t in f.param_types for p in types.parts_of(t)]
        arguments = [f"{k} {p}" for k, p in zip(kinds, parts, strict=True)]
        struct = types.result_struct(list(f.result_types))
        callee = capi.memory(entry.address) if entry.address else global_name(symbol(f.name))
        before = recorded = ""
        if entry.flush:
            recorded = self.lease.field(ctx, "floats")
            before = float_state.flush(self.writer, code, recorded)
            # A call that LLVM can see into could be inlined, or moved if it has no other effects.
            callee = code.op(f'call ptr asm "", "=r,0"(ptr {callee})', "body")
        whole = code.op(f"call {struct} {callee}({', '.join([f'ptr {ctx}', *arguments])})", "r")
        if entry.flush:
            float_state.restore(code, recorded, before)
        if state is not None:
            self.lease.take_gil(state)
        count = 1 + sum(len(types.parts_of(t)) for t in f.result_types)
        return [code.op(f"extractvalue {struct} {whole}, {i}", "out") for i in range(count)]

    # --- results ----------------------------------------------------------------------------------

    def results(self, parts: Sequence[str]) -> str:
        """Tests the status and makes the result."""
        entry, code = self.entry, self.code
        go_on = code.label("done")
        code.branch(code.op(f"icmp eq i32 {parts[0]}, 0", "c"), go_on, self.failed, self.likely)
        code.start(go_on)
        leaves = self.leaves(list(parts[1:]))
        if entry.build is None:
            return self.boxer.result(entry.result, leaves)
        whole = self.boxer.flat(leaves)
        build = pointer(entry.build)
        made = self.boxer.checked(f"call ptr {function('PyObject_CallOneArg')}(ptr {build}, ptr {whole})")
        code.do(f"call void {function('Py_DecRef')}(ptr {whole})")
        return made

    def leaves(self, parts: list[str]) -> list[Leaf]:
        """The leaves of the result, including the fixed ones."""
        computed = iter(self.entry.function.result_types)
        found: list[Leaf] = []
        for i in range(self.entry.result.count):
            if i in self.entry.fixed:
                found.append(Fixed(self.entry.fixed[i]))
                continue
            t = next(computed)
            n = len(types.parts_of(t))
            found.append(Computed(types.assemble(t, parts[:n]), t))
            del parts[:n]
        return found

    def give_back(self, ctx: str) -> None:
        self.lease.give_back(ctx, self.unboxer.held)

    def failure(self, ctx: str, status: str) -> None:
        """Raises the exception for the status.  An interrupt has been raised by its handler already.

        After ``context.LONG``, which ``error`` notes, the call goes on at the next entry.
        """
        code = self.code
        code.start(self.failed)
        words = [code.op(f"load i64, ptr {self.lease.field(ctx, f'operand{i}')}, align 8") for i in range(4)]
        self.give_back(ctx)
        interrupted, raising = code.label("interrupted"), code.label("raise")
        code.branch(code.op(f"icmp eq i32 {status}, {context.INTERRUPT}", "c"), interrupted, raising)
        code.start(interrupted)
        code.end("ret ptr null")
        code.start(raising)
        fmt = self.writer.global_("jitad.words", 'private constant [6 x i8] c"iLLLL\\00"')
        exc = code.op(f"call ptr (ptr, ptr, ...) {function('PyObject_CallFunction')}(ptr {pointer(self.entry.error)}, "
                      f"ptr {fmt}, i32 {status}, {', '.join(f'i64 {w}' for w in words)})", "exc")
        have, again, raised, done = (code.label(hint) for hint in ("have", "again", "raised", "done"))
        code.branch(code.op(f"icmp ne ptr {exc}, null", "c"), have, done)
        code.start(have)
        code.branch(code.op(f"icmp eq i32 {status}, {context.LONG}", "c"), again, raised)
        code.start(again)
        code.do(f"call void {function('Py_DecRef')}(ptr {exc})")
        code.jump(self.miss)
        code.start(raised)
        cls = code.op(f"load ptr, ptr {self.boxer.at(exc, capi.OB_TYPE)}, align 8")
        code.do(f"call void {function('PyErr_SetObject')}(ptr {cls}, ptr {exc})")
        code.do(f"call void {function('Py_DecRef')}(ptr {exc})")
        code.jump(done)
        code.start(done)
        code.end("ret ptr null")

    def unmade_result(self, ctx: str) -> None:
        """Releases a partial result after an allocation has failed."""
        code = self.code
        if self.boxer.failures:
            root = code.phi("ptr", self.unmade, "root")
            for block, name in self.boxer.failures:
                code.add_incoming(root, name, block)
            code.start(self.unmade)
            code.do(f"call void {function('Py_DecRef')}(ptr {root})")
            self.give_back(ctx)
            code.end("ret ptr null")

    def go_on(self) -> None:
        """Continues at the next entry if the call is not for this one."""
        code = self.code
        self.unboxer.drop_on_miss()
        code.start(self.miss)
        following = code.op(f"load ptr, ptr {capi.memory(self.entry.mark)}, align 8")
        made = code.op(f"musttail call ptr {following}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames)")
        code.end(f"ret ptr {made}")
