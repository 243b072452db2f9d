"""The entry point: a CPython function made of LLVM IR.

::

    PyObject *entry(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)

tests whether this call is of the shape it was compiled for, reads the arguments (``unbox``), takes a context, runs
the compiled function, which LLVM inlines here, and makes the results (``box``).  In every other case it goes on to
the next entry in line, at last to Python, which converts or compiles.

The context comes from a free list that the GIL guards, so calls may nest and threads may run side by side.
The GIL is let go while the body runs if it can be long: see ``effort``.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..frontend.pytree import Structure
from ..ir.graph import Function
from . import capi, context, types
from .box import Boxer, Computed, Fixed, Leaf, buildable
from .capi import function, pointer
from .emit import Code, Writer, global_name
from .function import symbol
from .unbox import Argument, Unboxer

LONG_BODY = 4096             # elements and counts among the arguments, from which on the GIL is let go


@dataclass(eq=False)
class Entry:
    """What an entry point is made from, and the objects that its code points to.

    ``count`` positional arguments come first, then those named ``keywords``, in this order.  ``effort`` is what
    ``effort.effort`` says.  ``build`` makes the result of a flat tuple of leaves where machine code cannot; ``error``
    makes the exception for a status and four words that the program left behind.  ``next`` is the entry to go on to.
    ``fixed``: leaves of the result that are no results of ``function``, by number. ``inline``: whether the compiled
    function may be inlined here; ``address``: of the compiled function, if it is in code made earlier.  ``code`` is
    the address of the entry itself, once it has been compiled.
    """

    name: str
    function: Function
    arguments: Sequence[Argument]
    count: int
    keywords: tuple[str, ...]
    result: Structure
    effort: str
    recursive: bool
    error: Callable[..., BaseException]
    build: Callable[[tuple[Any, ...]], Any] | None = None
    fixed: dict[int, Any] = field(default_factory=dict)
    next: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    inline: bool = True
    address: int = 0
    code: int = 0

    def __post_init__(self) -> None:
        if self.build is None and not buildable(self.result):
            raise ValueError(f"machine code cannot build {self.result}")


def write(writer: Writer, entry: Entry) -> str:
    """Add the entry point to a module that has the compiled function; yields its symbol."""
    return _EntryWriter(writer, entry).write()


class _EntryWriter:
    def __init__(self, writer: Writer, entry: Entry) -> None:
        self.writer, self.entry = writer, entry
        self.code = code = Code()
        self.likely = ", !prof " + writer.node('!"branch_weights", i32 4000, i32 1')
        self.miss, self.failed, self.unmade = code.label("miss"), code.label("failed"), code.label("unmade")
        self.unboxer = Unboxer(code, self.miss, self.likely)
        self.boxer = Boxer(code, self.unmade, self.likely)

    def write(self) -> str:
        for text in _DECLARATIONS:
            self.writer.declare(*text)
        parts = self.arguments()
        ctx = self.take_context()
        self.prepare(ctx)
        results = self.run(ctx, parts)
        made = self.results(results)
        self.trim(ctx)
        self.give_back(ctx)
        self.code.end(f"ret ptr {made}")
        self.failure(ctx, results[0])
        self.unmade_result(ctx)
        self.go_on()
        name = global_name(self.entry.name)
        head = f"define ptr {name}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames) nounwind"
        self.writer.function(self.entry.name, f"{head} {{\n{self.code.text()}\n}}\n")
        return self.entry.name

    # --- before -----------------------------------------------------------------------------------

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
        return parts

    def keywords(self) -> None:
        """The names of keyword arguments are interned strings, so their addresses tell."""
        unboxer, names = self.unboxer, self.entry.keywords
        unboxer.require(self.code.op("icmp ne ptr %kwnames, null", "c"))
        unboxer.require_equal("i64", unboxer.load("i64", "%kwnames", capi.VAR_SIZE), str(len(names)))
        for i, name in enumerate(names):
            unboxer.require_equal("ptr", unboxer.load("ptr", "%kwnames", capi.TUPLE_ITEMS + 8 * i), pointer(name))

    def take_context(self) -> str:
        """The first of the free list, or a new one."""
        code = self.code
        first = code.op(f"load ptr, ptr {POOL.pointer}, align 8", "first")
        have, lack, done = code.label("have"), code.label("lack"), code.label("context")
        ctx = code.phi("ptr", done, "ctx")
        code.branch(code.op(f"icmp ne ptr {first}, null", "c"), have, lack, self.likely)
        code.start(have)
        following = code.op(f"load ptr, ptr {self.field(first, 'next')}, align 8")
        code.do(f"store ptr {following}, ptr {POOL.pointer}, align 8")
        code.add_incoming(ctx, first)
        code.jump(done)
        code.start(lack)
        number = code.op(f"call ptr {function('PyObject_CallNoArgs')}(ptr {pointer(context.new)})")
        none = code.label("none")
        got = code.label("got")
        code.branch(code.op(f"icmp ne ptr {number}, null", "c"), got, none, self.likely)
        code.start(none)
        for obj in self.unboxer.held:
            code.do(f"call void {function('Py_DecRef')}(ptr {obj})")
        code.end("ret ptr null")
        code.start(got)
        made = code.op(f"call ptr {function('PyLong_AsVoidPtr')}(ptr {number})")
        code.do(f"call void {function('Py_DecRef')}(ptr {number})")
        code.add_incoming(ctx, made)
        code.jump(done)
        code.start(done)
        return ctx

    def prepare(self, ctx: str) -> None:
        """Tell the context how to ask for signals, and where this thread's stack ends."""
        code = self.code
        if self.entry.effort != "short":
            names = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyGILState_Release")
            self.writer.function("jitad.poll", _POLL.format(*map(function, names)))
            code.do(f"store ptr @jitad.poll, ptr {self.field(ctx, 'poll')}, align 8")
        if self.entry.recursive:
            known = code.op(f"load i64, ptr {self.field(ctx, 'thread')}, align 8")
            here = code.op(f"call i64 {function('pthread_self')}()")
            moved = code.op(f"icmp ne i64 {known}, {here}", "c")
            self.rarely(moved, lambda: self.call_python(context.bind_thread, ctx))

    def rarely(self, condition: str, then: Callable[[], None]) -> None:
        code = self.code
        rare, after = code.label("rare"), code.label("after")
        code.branch(code.op(f"xor i1 {condition}, true"), after, rare, self.likely)
        code.start(rare)
        then()
        code.jump(after)
        code.start(after)

    def call_python(self, callee: Callable[[int], None], ctx: str) -> None:
        """Call a Python function, which does not fail, with the address of the context."""
        number = self.code.op(f"call ptr {function('PyLong_FromVoidPtr')}(ptr {ctx})")
        none = self.code.op(f"call ptr {function('PyObject_CallOneArg')}(ptr {pointer(callee)}, ptr {number})")
        self.code.do(f"call void {function('Py_DecRef')}(ptr {number})")
        self.code.do(f"call void {function('Py_DecRef')}(ptr {none})")

    def field(self, ctx: str, name: str) -> str:
        return self.code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {context.offset(name)}", "field")

    # --- the body ---------------------------------------------------------------------------------

    def run(self, ctx: str, parts: Sequence[str]) -> list[str]:
        """Call the compiled function; yields the status and the parts of the results."""
        code, f = self.code, self.entry.function
        state = self.release_gil()
        kinds = [p for t in f.param_types for p in types.parts_of(t)]
        arguments = [f"{k} {p}" for k, p in zip(kinds, parts, strict=True)]
        struct = types.result_struct(f.result_types)
        callee = f"inttoptr (i64 {self.entry.address} to ptr)" if self.entry.address else global_name(symbol(f.name))
        note = "" if self.entry.inline else " " + self.writer.attributes("noinline")
        whole = code.op(f"call {struct} {callee}({', '.join([f'ptr {ctx}', *arguments])}){note}", "r")
        if state is not None:
            self.take_gil(state)
        count = 1 + sum(len(types.parts_of(t)) for t in f.result_types)
        return [code.op(f"extractvalue {struct} {whole}, {i}", "out") for i in range(count)]

    def release_gil(self) -> str | None:
        """Let others run if this can take long; yields the thread's state, or null if it was kept."""
        entry, code = self.entry, self.code
        if entry.effort == "short":
            return None
        if entry.effort == "long":
            return code.op(f"call ptr {function('PyEval_SaveThread')}()", "thread")
        work = "0"
        for size in (*self.unboxer.sizes, *self.unboxer.counts):
            work = code.op(f"call i64 @llvm.sadd.sat.i64(i64 {work}, i64 {size})")
        release, go_on, before = code.label("release"), code.label("go"), code.here
        state = code.phi("ptr", go_on, "thread")
        code.add_incoming(state, "null", before)
        code.branch(code.op(f"icmp sgt i64 {work}, {LONG_BODY}", "c"), release, go_on)
        code.start(release)
        code.add_incoming(state, code.op(f"call ptr {function('PyEval_SaveThread')}()"))
        code.jump(go_on)
        code.start(go_on)
        return state

    def take_gil(self, state: str) -> None:
        code = self.code
        again, done = code.label("again"), code.label("held")
        code.branch(code.op(f"icmp ne ptr {state}, null", "c"), again, done)
        code.start(again)
        code.do(f"call void {function('PyEval_RestoreThread')}(ptr {state})")
        code.jump(done)
        code.start(done)

    # --- after ------------------------------------------------------------------------------------

    def results(self, parts: Sequence[str]) -> str:
        """Test the status and make the result."""
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
        """The leaves of the result, those that are always the same among them."""
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

    def trim(self, ctx: str) -> None:
        """After a call that took much memory, let the system have it back."""
        code = self.code
        if self.entry.effort == "short":
            return
        fields = [self.field(ctx, name) for name in ("arena_base", "arena_top", "arena_high")]
        base, top, high = [code.op(f"load i64, ptr {f}, align 8") for f in fields]
        most = code.op(f"call i64 @llvm.umax.i64(i64 {top}, i64 {high})")
        used = code.op(f"sub i64 {most}, {base}")
        self.rarely(code.op(f"icmp ugt i64 {used}, {context.KEEP}", "c"), lambda: self.call_python(context.trim, ctx))

    def give_back(self, ctx: str) -> None:
        """Let go the arguments that were held, empty the arena, put the context back at the head of the free list."""
        code = self.code
        for obj in self.unboxer.held:
            code.do(f"call void {function('Py_DecRef')}(ptr {obj})")
        base = code.op(f"load ptr, ptr {self.field(ctx, 'arena_base')}, align 8")
        code.do(f"store ptr {base}, ptr {self.field(ctx, 'arena_top')}, align 8")
        first = code.op(f"load ptr, ptr {POOL.pointer}, align 8")
        code.do(f"store ptr {first}, ptr {self.field(ctx, 'next')}, align 8")
        code.do(f"store ptr {ctx}, ptr {POOL.pointer}, align 8")

    def failure(self, ctx: str, status: str) -> None:
        """Raise what the status says.  An interrupt has been raised already by the handler that was polled."""
        code = self.code
        code.start(self.failed)
        words = [code.op(f"load i64, ptr {self.field(ctx, f'operand{i}')}, align 8") for i in range(4)]
        self.give_back(ctx)
        interrupted, raising = code.label("interrupted"), code.label("raise")
        code.branch(code.op(f"icmp eq i32 {status}, {context.INTERRUPT}", "c"), interrupted, raising)
        code.start(interrupted)
        code.end("ret ptr null")
        code.start(raising)
        fmt = self.writer.global_("jitad.words", 'private constant [6 x i8] c"iLLLL\\00"')
        exc = code.op(f"call ptr (ptr, ptr, ...) {function('PyObject_CallFunction')}(ptr {pointer(self.entry.error)}, "
                      f"ptr {fmt}, i32 {status}, {', '.join(f'i64 {w}' for w in words)})", "exc")
        have, done = code.label("have"), code.label("raised")
        code.branch(code.op(f"icmp ne ptr {exc}, null", "c"), have, done)
        code.start(have)
        cls = code.op(f"load ptr, ptr {self.boxer.at(exc, capi.OB_TYPE)}, align 8")
        code.do(f"call void {function('PyErr_SetObject')}(ptr {cls}, ptr {exc})")
        code.do(f"call void {function('Py_DecRef')}(ptr {exc})")
        code.jump(done)
        code.start(done)
        code.end("ret ptr null")

    def unmade_result(self, ctx: str) -> None:
        """Making the result failed: let go what there is of it."""
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
        """Not a call for this entry: let the next one see."""
        code = self.code
        self.unboxer.drop_on_miss()
        code.start(self.miss)
        following = code.op(f"load ptr, ptr inttoptr (i64 {ctypes.addressof(self.entry.next)} to ptr), align 8")
        made = code.op(f"musttail call ptr {following}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames)")
        code.end(f"ret ptr {made}")


class _Pool:
    """The head of the free list of contexts, in memory that stays where it is."""

    def __init__(self) -> None:
        self._head = ctypes.c_void_p()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A child process has none of its parent's arenas."""
        self._head.value = None

    @property
    def pointer(self) -> str:
        return f"inttoptr (i64 {ctypes.addressof(self._head)} to ptr)"


POOL = _Pool()
_DECLARATIONS = (
    ("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1"),
    ("llvm.sadd.sat.i64", "i64", "i64, i64"),
    ("llvm.umax.i64", "i64", "i64, i64"),
)
_POLL = """define internal i32 @jitad.poll(ptr %ctx) {{
  %state = call i32 {}()
  %status = call i32 {}()
  call void {}(i32 %state)
  ret i32 %status
}}
"""

