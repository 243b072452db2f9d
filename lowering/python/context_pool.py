"""Acquires what an entry point needs for a call: a context, and the permission to run without the GIL.

Contexts come from a free list that the GIL guards, so calls may nest and threads may run side by side.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial

from ..llvm import context
from ..llvm.capi import function, immortal, named
from ..llvm.code import Assembly
from ..llvm.emit import Writer
from ..memory import context_runtime
from ..memory import result_buffers as blocks

LONG_BODY = 4096             # sum of the sizes and counts among the arguments above which the GIL is released


class _Pool:
    """The head of the free list of contexts, at a fixed address."""

    def __init__(self) -> None:
        self._head = immortal(ctypes.c_void_p())
        self.pointer = named("contexts", lambda: ctypes.addressof(self._head))
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Empty the list in a child process, which does not inherit the arenas of its parent."""
        self._head.value = None


POOL = _Pool()
_NEW = named("new context", partial(id, immortal(context.new)))


class Lease:
    """Emits the code that takes a context and gives it back.

    ``effort`` is the estimate of ``run_length.effort``.  ``blocks`` is True if the function may ask for blocks.
    """

    def __init__(self, writer: Writer, code: Assembly, likely: str, effort: str, blocks: bool) -> None:
        self.writer, self.code, self.likely, self.effort, self.blocks = writer, code, likely, effort, blocks
        for text in context_runtime.INTRINSICS:
            writer.declare(*text)

    # --- the context ------------------------------------------------------------------------------

    def take(self, held: Sequence[str]) -> str:
        """Take the first context of the free list, or a new one.

        If there is no memory for a new one, release the objects ``held`` and fail.
        """
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
        number = code.op(f"call ptr {function('PyObject_CallNoArgs')}(ptr {_NEW})")
        none = code.label("none")
        got = code.label("got")
        code.branch(code.op(f"icmp ne ptr {number}, null", "c"), got, none, self.likely)
        code.start(none)
        self.drop(held)
        code.end("ret ptr null")
        code.start(got)
        made = code.op(f"call ptr {function('PyLong_AsVoidPtr')}(ptr {number})")
        code.do(f"call void {function('Py_DecRef')}(ptr {number})")
        code.add_incoming(ctx, made)
        code.jump(done)
        code.start(done)
        return ctx

    def prepare(self, ctx: str, recursive: bool) -> None:
        """Store in the context the routine that polls for signals and the limit of this thread's stack."""
        code = self.code
        if self.effort != "short":
            poll = self.writer.declare("jitad.poll", "i32", "ptr")
            code.do(f"store ptr {poll}, ptr {self.field(ctx, 'poll')}, align 8")
        if recursive:
            known = code.op(f"load i64, ptr {self.field(ctx, 'thread')}, align 8")
            state = code.op(f"call ptr {function('PyThreadState_Get')}()")
            here = code.op(f"call i64 {function('PyThreadState_GetID')}(ptr {state})")
            moved = code.op(f"icmp ne i64 {known}, {here}", "c")
            bind = self.writer.declare("jitad.bind", "void", "ptr, i64", "cold")
            self.rarely(moved, lambda: code.do(f"call void {bind}(ptr {ctx}, i64 {here})"))

    def lend_blocks(self, ctx: str) -> None:
        """Pass all free blocks to the context, for large results."""
        code = self.code
        if not self.blocks:
            return
        count = code.op(f"getelementptr inbounds i64, ptr {blocks.LIST}, i64 1")
        code.do(f"store ptr {code.op(f'load ptr, ptr {blocks.LIST}, align 8')}, ptr {self.field(ctx, 'blocks_free')}")
        code.do(f"store ptr null, ptr {blocks.LIST}, align 8")
        code.do(f"store i64 0, ptr {count}, align 8")
        code.do(f"store ptr {blocks.declare(self.writer, 'jitad.take')}, ptr {self.field(ctx, 'blocks_take')}, align 8")

    def return_blocks(self, ctx: str) -> None:
        code = self.code
        if not self.blocks:
            return
        lists = [code.op(f"load i64, ptr {self.field(ctx, name)}, align 8") for name in ("blocks_free", "blocks_used")]
        some = code.op(f"icmp ne i64 {code.op(f'or i64 {lists[0]}, {lists[1]}')}, 0", "c")
        self.rarely(some, lambda: code.do(f"call void {blocks.declare(self.writer, 'jitad.return')}(ptr {ctx})"))

    def trim(self, ctx: str) -> None:
        """Return memory to the system after a call that used much of it."""
        code = self.code
        if self.effort == "short":
            return
        fields = [self.field(ctx, name) for name in ("arena_base", "arena_top", "arena_high")]
        base, top, high = [code.op(f"load i64, ptr {f}, align 8") for f in fields]
        most = code.op(f"call i64 @llvm.umax.i64(i64 {top}, i64 {high})")
        used = code.op(f"sub i64 {most}, {base}")
        trim = self.writer.declare("jitad.trim", "void", "ptr, i64", "cold")
        self.rarely(code.op(f"icmp ugt i64 {used}, {context.KEEP}", "c"),
                    lambda: code.do(f"call void {trim}(ptr {ctx}, i64 {most})"))

    def give_back(self, ctx: str, held: Sequence[str]) -> None:
        """Release the objects ``held``, empty the arena, and put the context back at the head of the free list."""
        code = self.code
        self.drop(held)
        self.return_blocks(ctx)
        base = code.op(f"load ptr, ptr {self.field(ctx, 'arena_base')}, align 8")
        code.do(f"store ptr {base}, ptr {self.field(ctx, 'arena_top')}, align 8")
        first = code.op(f"load ptr, ptr {POOL.pointer}, align 8")
        code.do(f"store ptr {first}, ptr {self.field(ctx, 'next')}, align 8")
        code.do(f"store ptr {ctx}, ptr {POOL.pointer}, align 8")

    def drop(self, held: Sequence[str]) -> None:
        for obj in held:
            self.code.do(f"call void {function('Py_DecRef')}(ptr {obj})")

    def field(self, ctx: str, name: str) -> str:
        return self.code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {context.offset(name)}", "field")

    # --- the GIL ----------------------------------------------------------------------------------

    def release_gil(self, amounts: Sequence[str]) -> str | None:
        """Release the GIL if the call may take long.

        Returns the thread's state, which is null if the GIL was kept at run time; None if it is never released.
        ``amounts``: sizes and counts among the arguments, which measure the work.
        """
        code = self.code
        if self.effort == "short":
            return None
        if self.effort == "long":
            return code.op(f"call ptr {function('PyEval_SaveThread')}()", "thread")
        work = "0"
        for amount in amounts:
            work = code.op(f"call i64 @llvm.sadd.sat.i64(i64 {work}, i64 {amount})")
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

    # --- small steps ------------------------------------------------------------------------------

    def rarely(self, condition: str, then: Callable[[], None]) -> None:
        code = self.code
        rare, after = code.label("rare"), code.label("after")
        code.branch(code.op(f"xor i1 {condition}, true"), after, rare, self.likely)
        code.start(rare)
        then()
        code.jump(after)
        code.start(after)
