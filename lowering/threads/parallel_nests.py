"""Runs the outermost loop of a nest over large arrays (``loops/nests.py``) on several threads (``thread_pool``).

The loop's body becomes a function that runs the iterations of one share.  The values that it captures from the
enclosing function are words of the job.  Partial results of reductions are combined in the order of the shares.  A
run-time test decides whether the nest takes long enough (``passes/parallel/duration.py``).  If not, one thread runs it
in place, as without threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...passes.parallel.duration import ENOUGH
from ..builder.function_builder import FunctionBuilder, unlikely
from ..llvm.code import Code
from ..llvm.emit import global_name
from ..llvm.instruction import Instruction
from ..memory import arena
from . import aside, thread_pool

LEAST = 64                    # iterations at least, if their number is known

Carried = Sequence[tuple[str, str]]
Body = Callable[[str, list[str]], Sequence[str]]
Join = Callable[[list[str], list[str]], list[str]]


@dataclass(frozen=True)
class Walk:
    """``for i in range(n)``: an iteration emits ``body(i, carried)`` and processes ``each`` elements.

    ``join`` combines two partial results; ``note`` goes on the back edge.  ``captured``: the names that the body reads
    from outside, with their types; ``duration``: the time for an element, in picoseconds.
    """

    n: str
    each: str
    body: Body
    carried: Carried
    join: Join | None
    note: str
    captured: dict[str, str]
    duration: int


def possible(fn: FunctionBuilder, walk: Walk) -> bool:
    """True if a loop may be divided: not in code that several threads already run, nor in an outlined routine."""
    if fn.target.is_gpu or fn.code is not fn.body or fn.func.name in fn.module.shared:
        return False
    if walk.n[0] != "%" and int(walk.n) < LEAST:
        return False
    return fn.module.module.parallel and (not walk.carried or walk.join is not None)


def run(fn: FunctionBuilder, walk: Walk, in_place: Callable[[], list[str]]) -> list[str]:
    """Emit the loop; returns the final carried values.  ``in_place`` emits it for one thread."""
    code = fn.code
    ask, several, alone, after = (code.label(name) for name in ("ask", "several", "alone", "after"))
    kinds = [t for t, _ in walk.carried]
    outs = [code.phi(t, after) for t in kinds]

    def go(results: list[str]) -> None:
        for out, result in zip(outs, results):
            code.add_incoming(out, result)
        code.jump(after)
    inside = fn.forest.loop_of(fn.block) is not None
    time = fn.mul(fn.mul(walk.n, walk.each), str(walk.duration))
    code.branch(code.icmp("sgt", "i64", time, str(ENOUGH), hint="c"), ask, alone, unlikely(fn.writer) if inside else "")
    code.start(ask)
    struct, given = f"{{ {', '.join(['i32', *kinds])} }}", dict(walk.captured)
    given |= {x: "i64" for x in (walk.n, time) if x[0] == "%"}
    parameters = [(t, value) for value, t in given.items()]
    routine = aside.write(fn, fn.writer.fresh("jitad.several"), parameters, struct,
                          lambda: _on_threads(fn, walk, struct, time), " optnone")   # it has no long loops
    out = code.call(struct, routine, ("ptr", "%ctx"), *parameters)
    status = code.extract("i32", struct, out, 0, hint="status")
    code.branch(code.icmp("eq", "i32", status, str(thread_pool.ALONE), hint="c"), alone, several)
    code.start(several)
    fn.require(code.icmp("eq", "i32", status, "0", hint="c"), status)
    fn.count_iterations(walk.n, walk.each)
    go([code.extract(t, struct, out, i) for i, t in enumerate(kinds, 1)])
    code.start(alone)
    go(in_place())
    code.start(after)
    return list(outs)


def _on_threads(fn: FunctionBuilder, walk: Walk, struct: str, time: str) -> None:
    """Fill the job and run its shares; ``ALONE`` if there is one thread."""
    code = fn.code
    crew = code.call("i64", thread_pool.crew(fn.writer), ("ptr", "%ctx"), hint="threads")
    shares, threads = thread_pool.divided(fn.writer, code, crew, walk.n)
    several, alone = code.label("several"), code.label("alone")
    code.branch(code.icmp("sgt", "i64", threads, "1", hint="c"), several, alone)
    code.start(alone)
    aside.leave(fn, struct, str(thread_pool.ALONE), ())
    code.start(several)
    width, top = thread_pool.row(len(thread_pool.ROW) + len(walk.carried)), fn.field("arena_top")
    mark = code.load("ptr", top, hint="mark")
    rows = arena.reserve(fn, fn.mul(shares, str(width)), arena.ALIGN)
    job, share = code.alloca("i64", len(thread_pool.HEAD) + len(walk.captured), 8), _share(fn, walk)
    words = thread_pool.head(shares, threads, walk.n, rows, width, share, time)
    for i, (value, t) in enumerate(walk.captured.items()):
        words[_argument(i)] = ("i8", code.cast("zext", "i1", value, "i8")) if t == "i1" else (t, value)
    for offset, word in words.items():
        code.store(*word, _at(code, job, offset))
    status = code.call("i32", thread_pool.run(fn.writer), ("ptr", "%ctx"), ("ptr", job), hint="status")
    fn.require(code.icmp("eq", "i32", status, "0", hint="c"), status)
    results = _joined(fn, walk, rows, shares, width)
    code.store("ptr", mark, top)
    aside.leave(fn, struct, "0", [(t, x) for (t, _), x in zip(walk.carried, results)])


def _argument(i: int) -> int:
    return 8 * (len(thread_pool.HEAD) + i)


def _result(i: int) -> int:
    return 8 * (len(thread_pool.ROW) + i)


def _at(code: Code, base: str, offset: int) -> str:
    return code.address("i8", base, offset)


# --- the share's function -------------------------------------------------------------------------

def _share(fn: FunctionBuilder, walk: Walk) -> str:
    """Write ``i32 (ctx, job, share, row)``; returns its name."""
    outer, name = fn.code, fn.writer.fresh("jitad.walk")
    fn.code = code = Code(outer.count)
    try:
        for k, (value, t) in enumerate(walk.captured.items()):
            _load(code, value, _argument(k), t)
        first, end = thread_pool.bounds(code)

        def body(i: str, values: list[str]) -> Sequence[str]:
            return walk.body(fn.add(first, i), values)
        trip = code.arith("sub", "i64", end, first, flags="nsw", hint="n")
        results = fn.plain_loop(trip, body, walk.carried, note=walk.note)
        for i, ((t, _), value) in enumerate(zip(walk.carried, results)):
            if t == "i1":
                t, value = "i8", code.cast("zext", "i1", value, "i8")
            code.store(t, value, _at(code, "%row", _result(i)))
        code.ret("i32", "0")
    finally:
        fn.code, outer.count = outer, code.count
    attributes = f"nounwind{fn.writer.vector_stack}{fn.width}"
    head = f"define internal i32 {global_name(name)}(ptr %ctx, ptr %job, i64 %share, ptr %row) {attributes}"
    fn.writer.function(name, f"{head} {{\n{code.text()}\n}}\n")
    return global_name(name)


def _load(code: Code, name: str, offset: int, t: str) -> None:
    """Load a captured value under its original name."""
    at = _at(code, "%job", offset)
    if t == "i1":
        code.lines.append(Instruction("icmp", name, t, (code.load("i8", at, hint="byte"), "0"), ("i8",), "", "ne"))
    else:
        code.lines.append(Instruction("load", name, t, (at,), (), "", "8"))


# --- the caller -------------------------------------------------------------------------------------

def _joined(fn: FunctionBuilder, walk: Walk, rows: str, shares: str, width: int) -> list[str]:
    """The rows, combined in order."""
    code = fn.code

    def row(s: str) -> list[str]:
        base = code.address("i8", rows, fn.mul(s, str(width)), hint="row")
        return [_read(code, base, _result(i), t) for i, (t, _) in enumerate(walk.carried)]
    if not walk.carried or walk.join is None:
        return []
    join, kinds = walk.join, [t for t, _ in walk.carried]
    rest = fn.sub(shares, "1")
    return fn.plain_loop(rest, lambda s, values: join(values, row(fn.add(s, "1"))), list(zip(kinds, row("0"))))


def _read(code: Code, base: str, offset: int, t: str) -> str:
    x = code.load("i8" if t == "i1" else t, _at(code, base, offset))
    return code.icmp("ne", "i8", x, "0") if t == "i1" else x
