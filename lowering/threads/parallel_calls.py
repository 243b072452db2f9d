"""Calls of functions that are loops with independent iterations (``passes/parallel/outline.py``), on several threads.

The caller stores the arguments in a job (``thread_pool.py``) and reserves a row for each share of the iterations.  A
generated function runs a share: it reads the job's arguments, initialises each result by its role, and writes the row.

* ``each``: all threads work on the same array.
* Reductions of numbers start from the op's neutral element.  The first share starts from the caller's value.  The
  caller combines the rows in order.  A search for the best starts from the worst value.
* Sums in arrays: every share but the first has a private array, cleared by the thread that works on it.
* ``last``: the result of the last share.

The memory reserved for this is released immediately afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Function, Op
from ...ir.types import Array, Scalar, Type
from ...passes.analysis.cost import LANES
from ...passes.analysis.loops import loop_forest
from ..builder.function_builder import FunctionBuilder
from ..builder.module_builder import ModuleBuilder
from ..llvm import types
from ..llvm.code import Code
from ..llvm.emit import global_name, symbol
from ..llvm.types import Buffer, Lowered
from ..math import ops, selection
from ..memory import arena
from ..planning.array_plan import plan
from ..planning.buffer_placement import Places
from . import aside, thread_pool


def _in_place(module: ModuleBuilder, callee: Function) -> set[int]:
    """The results that are arrays of the caller."""
    where = Places(callee, plan(callee, module.sharing), loop_forest(callee)).sources()
    returns = [op for op in callee.all_ops() if op.name == "return"]
    arrays = (i for i, t in enumerate(callee.result_types) if isinstance(t, Array))
    return {i for i in arrays if all(where.get(op.operands[i]) is callee.params[2 + i] for op in returns)}


def call(fn: FunctionBuilder, op: Op) -> list[Lowered]:
    """The call on several threads if the context has them, otherwise a plain call.  Returns the results.

    Arrays among them are those of the caller (``planning/buffer_placement.py`` relies on it).  If the callee does not
    work in place on arrays that all threads share, one thread runs it.
    """
    callee = fn.module.functions[op.attrs["callee"]]
    args, own = [fn.values[v] for v in op.operands], _in_place(fn.module, callee)
    if not {i for i, role in enumerate(op.attrs["threads"]) if role == "each"} <= own:
        return _alone(fn, callee, args, own)
    results = fn.call_symbol(_routine(fn, op, callee, own), callee.param_types, callee.result_types, args)
    return [args[2 + i] if isinstance(result, Buffer) else result for i, result in enumerate(results)]


def _routine(fn: FunctionBuilder, op: Op, callee: Function, own: set[int]) -> str:
    """A function like the callee, which runs it on several threads."""
    name = f"jitad.several.{callee.name}"
    if fn.writer.defines(name):
        return global_name(name)
    kinds, struct = callee.param_types, types.result_struct(callee.result_types)
    names = [[f"%arg{k}.{i}" for i in range(len(types.parts_of(t)))] for k, t in enumerate(kinds)]
    args = [types.assemble(t, parts) for t, parts in zip(kinds, names)]

    def leave(results: list[Lowered]) -> None:
        aside.leave(fn, struct, "0", [(t, x) for kind, result in zip(callee.result_types, results)
                                      for t, x in zip(types.parts_of(kind), types.split(result))])

    def body() -> None:
        code = fn.code
        crew = code.call("i64", thread_pool.crew(fn.writer), ("ptr", "%ctx"), hint="threads")
        shares, threads = _divided(fn, op, callee, crew, str(args[1]))
        several, alone = code.label("several"), code.label("alone")
        code.branch(code.icmp("sgt", "i64", threads, "1", hint="c"), several, alone)
        code.start(several)
        leave(_Several(fn, callee, op.attrs["threads"], args, shares).run(threads))
        code.start(alone)
        leave(_alone(fn, callee, args, own))
    parameters = [(t, name) for kind, parts in zip(kinds, names) for t, name in zip(types.parts_of(kind), parts)]
    return aside.write(fn, name, parameters, struct, body)


def _divided(fn: FunctionBuilder, op: Op, callee: Function, crew: str, trip: str) -> tuple[str, str]:
    """The numbers of shares and threads: one share for each where a share has arrays of its own."""
    code = fn.code
    each = thread_pool.UNEVEN if op.attrs.get("uneven") else thread_pool.SHARES
    if any(_is_sum(role, t) for role, t in zip(op.attrs["threads"], callee.result_types)):
        each = 1
    if callee.attrs.get("lanes"):                            # a share of fewer iterations would have no vectors
        trip = code.arith("udiv", "i64", trip, str(LANES))
    return thread_pool.divided(fn.writer, code, crew, trip, each)


def _alone(fn: FunctionBuilder, callee: Function, args: list[Lowered], own: set[int]) -> list[Lowered]:
    """The plain call; copies arrays to those of the caller, except those that are in place (``own``)."""
    results = fn.call(callee, args)
    for i, result in enumerate(results):
        given = args[2 + i] if isinstance(result, Buffer) else None
        if isinstance(result, Buffer) and isinstance(given, Buffer):
            if i not in own:
                size = fn.mul(fn.product(given.sizes), str(types.width(given.dtype)))
                fn.writer.declare("llvm.memmove.p0.p0.i64", "void", "ptr, ptr, i64, i1")
                fn.code.call_void("@llvm.memmove.p0.p0.i64", ("ptr", given.ptr), ("ptr", result.ptr), ("i64", size),
                                  ("i1", "false"))
            results[i] = given
    return results


class _Several:
    """One call on several threads.  ``sums``: the array results of which every share has a private copy."""

    def __init__(self, fn: FunctionBuilder, callee: Function, roles: Sequence[str], args: list[Lowered],
                 shares: str) -> None:
        self.fn, self.callee, self.roles, self.shares = fn, callee, roles, shares
        self.args, self.kinds = args, callee.param_types
        self.layout = Layout(callee, roles)
        self.sums = [i for i, role in enumerate(roles) if _is_sum(role, callee.result_types[i])]

    def run(self, threads: str) -> list[Lowered]:
        fn, code = self.fn, self.fn.code
        top = fn.field("arena_top")
        mark = code.load("ptr", top, hint="mark")
        job = code.alloca("i64", len(thread_pool.HEAD) + self.layout.arguments, 8)
        width = thread_pool.row(self.layout.width)
        rows = arena.reserve(fn, fn.mul(self.shares, str(width)), arena.ALIGN)
        own = {i: self._arrays(i, rows, width) for i in self.sums}
        share = _ShareWriter(fn.module, self.callee, self.roles, self.layout).write()
        words = thread_pool.head(self.shares, threads, str(self.args[1]), rows, width, share, str(self.args[-1]))
        for offset, word in words.items():
            self._put(job, offset, *word)
        at = 8 * len(thread_pool.HEAD)
        for kind, value in zip(self.kinds[2:], self.args[2:]):
            for t, part in zip(types.parts_of(kind), types.split(value)):
                self._put(job, at, *(("i8", code.cast("zext", "i1", part, "i8")) if t == "i1" else (t, part)))
                at += 8
        status = code.call("i32", thread_pool.run(fn.writer), ("ptr", "%ctx"), ("ptr", job), hint="status")
        fn.require(code.icmp("eq", "i32", status, "0", hint="c"), status)
        results = [self._result(i, rows, width, own.get(i)) for i in range(len(self.roles))]
        code.store("ptr", mark, top)
        return results

    def _put(self, base: str, offset: int, type: str, value: str) -> None:
        self.fn.code.store(type, value, self.fn.code.address("i8", base, offset))

    def _row(self, rows: str, s: str, width: int) -> str:
        return self.fn.code.address("i8", rows, self.fn.mul(s, str(width)), hint="row")

    def _arrays(self, i: int, rows: str, width: int) -> str:
        """Reserve arrays for all shares but the first and store their addresses in the rows; returns their size."""
        fn, code = self.fn, self.fn.code
        given = self.args[2 + i]
        assert isinstance(given, Buffer)
        size = fn.mul(fn.product(given.sizes), str(types.width(given.dtype)))
        size = fn.mul(code.arith("lshr", "i64", code.arith("add", "i64", size, "63"), "6"), "64")
        all_of = arena.reserve(fn, fn.mul(fn.sub(self.shares, "1"), size), arena.ALIGN)

        def note(s: str, _: list[str]) -> list[str]:
            mine = code.address("i8", all_of, fn.mul(fn.sub(s, "1"), size))
            self._put(self._row(rows, s, width), self.layout.result(i), "ptr", mine)
            return []
        fn.plain_loop(self.shares, note, start="1")
        return size

    def _result(self, i: int, rows: str, width: int, size: str | None) -> Lowered:
        fn, role, t = self.fn, self.roles[i], self.callee.result_types[i]
        if role == "each":
            return self.args[2 + i]
        if size is not None:
            return self._add_up(i, rows, width)
        assert isinstance(t, Scalar)
        where = self.layout.result(i)
        if role == "last":
            return self._load(self._row(rows, fn.sub(self.shares, "1"), width), where, t)
        begin = self._load(rows, where, t)

        def join(s: str, values: list[str]) -> list[str]:
            part = self._load(self._row(rows, s, width), where, t)
            if role in selection.BEST:
                return [selection.select(fn, t, ops.apply(fn, role, t, [part, values[0]], {}, t), part, values[0])]
            return [ops.apply(fn, role, t, [values[0], part], {}, t)]
        return fn.plain_loop(self.shares, join, [(types.register(t), begin)], start="1")[0]

    def _load(self, row: str, offset: int, t: Scalar) -> str:
        return self.fn.load(t, self.fn.code.address("i8", row, offset))

    def _add_up(self, i: int, rows: str, width: int) -> Lowered:
        """Add the shares' arrays to the first share's, which is the caller's."""
        fn, code, total = self.fn, self.fn.code, self.args[2 + i]
        assert isinstance(total, Buffer)
        count, t = fn.product(total.sizes), total.dtype

        def share(s: str, _: list[str]) -> list[str]:
            at = code.address("i8", self._row(rows, s, width), self.layout.result(i))
            part = code.load("ptr", at)

            def element(k: str, _: list[str]) -> list[str]:
                both = [fn.load(t, total.ptr, k), fn.load(t, part, k)]
                fn.store(t, ops.apply(fn, "add", t, both, {}, t), total.ptr, k)
                return []
            fn.plain_loop(count, element)
            return []
        fn.plain_loop(self.shares, share, start="1")
        return total


def _is_sum(role: str, t: Type) -> bool:
    return role == "add" and isinstance(t, Array)


class Layout:
    """The positions of the words of a job and of a row."""

    def __init__(self, callee: Function, roles: Sequence[str]) -> None:
        self.arguments = sum(len(types.parts_of(t)) for t in callee.param_types[2:])
        self.width = len(thread_pool.ROW) + len(roles)

    def result(self, i: int) -> int:
        """The byte offset in a row of result ``i``: a number, or the address of the share's private array."""
        return 8 * (len(thread_pool.ROW) + i)


class _ShareWriter:
    """Writes ``i32 @f.share(ctx, job, share, row)``, which runs the iterations of one share."""

    def __init__(self, module: ModuleBuilder, callee: Function, roles: Sequence[str], layout: Layout) -> None:
        self.module, self.writer, self.callee, self.roles, self.layout = module, module.writer, callee, roles, layout
        self.code = Code()

    def write(self) -> str:
        name = f"jitad.share.{self.callee.name}"
        if self.writer.defines(name):
            return global_name(name)
        code, callee = self.code, self.callee
        self.writer.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        self.writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        first = code.icmp("eq", "i64", "%share", "0", hint="first")
        grain = LANES if callee.attrs.get("lanes") else 1
        given = [("ptr", "%ctx"), *(("i64", bound) for bound in thread_pool.bounds(code, grain))]
        buffers: dict[int, Buffer] = {}
        at = 8 * len(thread_pool.HEAD)
        for k, t in enumerate(callee.param_types[2:]):
            parts, at = self._read(t, at)
            if k < len(self.roles):
                parts = self._begin(k, t, parts, first, buffers)
            given += zip(types.parts_of(t), parts)
        struct = types.result_struct(callee.result_types)
        out = code.call(struct, global_name(symbol(callee.name)), *given, hint="r")
        status = code.extract("i32", struct, out, 0, hint="status")
        good, bad = code.label("good"), code.label("bad")
        code.branch(code.icmp("eq", "i32", status, "0", hint="c"), good, bad)
        code.start(good)
        self._leave(struct, out, buffers)
        code.ret("i32", "0")
        code.start(bad)
        code.ret("i32", status)
        head = f"define internal i32 {global_name(name)}(ptr %ctx, ptr %job, i64 %share, ptr %row) nounwind"
        return self.writer.function(name, f"{head} {{\n{code.text()}\n}}\n")

    def _word(self, base: str, offset: int, t: str) -> str:
        where = self.code.address("i8", base, offset)
        x = self.code.load("i8" if t == "i1" else t, where)
        return self.code.icmp("ne", "i8", x, "0") if t == "i1" else x

    def _read(self, t: Type, at: int) -> tuple[list[str], int]:
        kinds = types.parts_of(t)
        return [self._word("%job", at + 8 * i, kind) for i, kind in enumerate(kinds)], at + 8 * len(kinds)

    def _begin(self, k: int, t: Type, parts: list[str], first: str, buffers: dict[int, Buffer]) -> list[str]:
        """The initial value of a result in this share: the caller's value, or the neutral element."""
        role, code = self.roles[k], self.code
        if role in ("each", "last"):
            return parts
        if isinstance(t, Scalar):
            kind = types.register(t)
            return [code.select(first, kind, parts[0], selection.neutral(role, t))]
        assert isinstance(t, Array)
        fresh, go = code.label("fresh"), code.label("go")
        ptr = code.phi("ptr", go)
        code.add_incoming(ptr, parts[0])
        code.branch(first, go, fresh)
        code.start(fresh)
        mine = self._word("%row", self.layout.result(k), "ptr")
        self._clear(mine, t, self._bytes(t, parts[1:]))
        code.add_incoming(ptr, mine)
        code.jump(go)
        code.start(go)
        buffers[k] = Buffer(ptr, tuple(parts[1:]), t)
        return [ptr, *parts[1:]]

    def _clear(self, mine: str, t: Array, size: str) -> None:
        """Fill a private array with the neutral element: −0 for floats, so that a sum of negative zeros stays −0."""
        code = self.code
        if not t.dtype.is_float:
            code.call_void("@llvm.memset.p0.i64", ("ptr", mine), ("i8", "0"), ("i64", size), ("i1", "false"))
            return
        body, done = code.label("clear"), code.label("cleared")
        at = code.phi("i64", body, "at")
        code.add_incoming(at, "0")
        code.branch(code.icmp("ne", "i64", size, "0", hint="c"), body, done)
        code.start(body)
        where = code.address("i8", mine, at)
        code.store(types.memory(t.dtype), selection.neutral("add", t.dtype), where, align=types.width(t.dtype))
        following = code.arith("add", "i64", at, str(types.width(t.dtype)), flags="nuw")
        code.add_incoming(at, following)
        code.branch(code.icmp("ult", "i64", following, size, hint="c"), body, done)
        code.start(done)

    def _bytes(self, t: Array, sizes: Sequence[str]) -> str:
        total = str(types.width(t.dtype))
        for size, known in zip(sizes, t.dims):
            total = self.code.arith("mul", "i64", total, size if known is None else str(known))
        return total

    def _leave(self, struct: str, out: str, buffers: dict[int, Buffer]) -> None:
        """Store numbers in the row, and copy sums in arrays to the share's array if they are elsewhere."""
        code, i = self.code, 1
        for k, t in enumerate(self.callee.result_types):
            parts = types.parts_of(t)
            x = code.extract(parts[0], struct, out, i)
            i += len(parts)
            if isinstance(t, Scalar):
                where = code.address("i8", "%row", self.layout.result(k))
                x = code.cast("zext", "i1", x, "i8") if t.is_bool else x
                code.store(types.memory(t), x, where)
            elif k in buffers:
                move, done, to = code.label("move"), code.label("there"), buffers[k]
                code.branch(code.icmp("eq", "ptr", x, to.ptr), done, move)
                code.start(move)
                size = self._bytes(to.type, to.sizes)
                code.call_void("@llvm.memcpy.p0.p0.i64", ("ptr", to.ptr), ("ptr", x), ("i64", size), ("i1", "false"))
                code.jump(done)
                code.start(done)
