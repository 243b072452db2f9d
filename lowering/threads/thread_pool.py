"""Routines that run a job on several threads.

A *job* is a row of 64-bit words in the caller's stack frame: ``HEAD``, then the arguments of the loop's function.
The iterations are divided into *shares* of equal length, whose number does not depend on the number of threads that
actually run, so that neither do the results.  A function of the loop's own runs a share (``parallel_calls.py``) and
stores its results in the share's row of the table ``rows``: a status, the operands of a failure, then results.

Each context has threads of its own, its *workers*, which are made when they are first needed and then wait for jobs.
Thread ``t`` begins with the shares from ``t * shares / threads`` on, in order, and then takes shares that others have
not begun (work stealing, as in Cilk).  The calling thread is thread 0: it works at once, and waits only for shares that
a worker has begun.  If the processors are busy with other work, it therefore does most of the work itself.

The word ``offer`` of a worker's context is its mailbox: 0, or the job that is offered, or ``TAKEN`` while it works.
The caller withdraws an offer that is not taken, so no worker touches a job that is over.  A worker that finds nothing
tests its mailbox for some time, and then sleeps: it sets ``asleep`` and waits for the semaphore ``wake``.  Who offers
a job, or takes one, wakes two more threads: a tree, so that the caller does not wake all.

To wake a thread takes the caller 4 µs (Intel Xeon), and the thread begins later.  If it sleeps, a job that takes less
than ``WAKING`` is left to those that do not: the caller alone runs the shares, if need be.  It adds up the time of such
jobs in ``missed``, and wakes the thread when this is ``needed``: for the next job, if it comes soon.  If the thread
then takes none, as the jobs are far apart or the processors busy, twice as much is needed the next time.

``stop`` is the first share that need not continue: a failure in a share cancels the later ones, and −1 cancels all.
A worker tests it when it polls, instead of polling for signals.  The calling thread handles signals, both while it
works and while it waits.

Each thread works in the floating-point state of the calling thread, ``floats``.
"""

from __future__ import annotations

import ctypes

from ..llvm import context, float_state
from ..llvm.capi import function, named, symbols
from ..llvm.code import Code
from ..llvm.emit import Writer
from ..memory import context_runtime
from . import work_stealing

Word = tuple[str, str]                # type and name
HEAD = ("shares", "threads", "trip", "stop", "context", "rows", "width", "share", "floats",
        "time")
ROW = ("status", "operand0", "operand1", "operand2", "operand3")
TAKEN = 1
ALONE = -(1 << 30)            # the status of a routine that has one thread, and has done nothing
WAKING = 50_000_000           # picoseconds for which a thread that sleeps is woken
MOST_MISSED = 64 * WAKING
SPINS = 2_000                 # pauses of the processor before a thread sleeps: 50 µs on an Intel Xeon
PAUSE = 50                    # microseconds between later tests of the caller
PATIENCE = 1_000              # tests between polls for signals
SHARES, UNEVEN = 1, 8         # shares for each thread, and where the iterations take different times

_HIRE = named("hire", lambda: ctypes.cast(context.HIRE, ctypes.c_void_p).value or 0)


def at(field: str) -> int:
    """The byte offset of a word of a job."""
    return 8 * HEAD.index(field)


def row(words: int) -> int:
    """The bytes of a row, which is on cache lines of its own."""
    return -(-8 * words // context.LINE) * context.LINE


def head(shares: str, threads: str, trip: str, rows: str, width: int, share: str, time: str) -> dict[int, Word]:
    """The words of a job by their offsets, except those that the routines enter."""
    words = {"shares": shares, "threads": threads, "trip": trip, "width": str(width), "time": time}
    return {at("rows"): ("ptr", rows), at("share"): ("ptr", share), **{at(k): ("i64", x) for k, x in words.items()}}


def run(writer: Writer) -> str:
    """``@name`` of ``i32 (ctx, job)``: runs all shares and returns the status of the first that failed, or 0."""
    return writer.declare("jitad.team", "i32", "ptr, ptr", "nounwind")


def crew(writer: Writer) -> str:
    """``@name`` of ``i64 (ctx)``: returns the number of threads, after making them."""
    return writer.declare("jitad.crew", "i64", "ptr", "nounwind")


def define(writer: Writer) -> None:
    """Write the routines, which all modules share."""
    fields = {f"ctx_{name}": context.offset(name) for name in context.FIELDS}
    words = {f"job_{name}": at(name) for name in HEAD}
    names = ("usleep", "pthread_self", "pthread_create", "pthread_detach", "sem_init", "sem_wait", "sem_post")
    other = {name: function(name) for name in names}
    text = {**fields, **words, **other, "interrupt": context.INTERRUPT, "keep": context.KEEP, "spins": SPINS,
            "pause": PAUSE, "patience": PATIENCE, "hire": _HIRE, "taken": TAKEN, "waking": WAKING,
            "most": MOST_MISSED, "rest": _rest(writer)}
    float_state.define(writer)
    for name in ("umax", "umin", "usub.sat"):
        writer.declare(f"llvm.{name}.i64", "i64", "i64, i64")
    writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    bodies = {name: body.format(**text) for name, body in _TEXTS.items()}
    for name, body in {"bind": context_runtime.bind_text(), "trim": context_runtime.trim_text(), **bodies}.items():
        writer.function(f"jitad.{name}", body)
        writer.outside(symbols(body))


def _rest(writer: Writer) -> str:
    """The instruction of a loop that waits: it leaves the processor's units to the other thread of a core."""
    processor = float_state.processor(writer.triple)
    if processor == "x86_64":
        return f"call void {writer.declare('llvm.x86.sse2.pause', 'void', '')}()"
    if processor == "aarch64":
        return f"call void {writer.declare('llvm.aarch64.hint', 'void', 'i32')}(i32 1)"
    return ""


def divided(writer: Writer, code: Code, crew: str, trip: str, each: int = SHARES) -> tuple[str, str]:
    """Emit the numbers of shares, ``each`` for a thread, and of threads, for ``trip`` iterations at most."""
    smin = writer.declare("llvm.smin.i64", "i64", "i64, i64")
    wanted = code.arith("mul", "i64", crew, str(each), flags="nuw nsw") if each > 1 else crew
    shares = code.call("i64", smin, ("i64", wanted), ("i64", trip), hint="shares")
    return shares, code.call("i64", smin, ("i64", crew), ("i64", shares), hint="threads") if each > 1 else shares


def bounds(code: Code, grain: int = 1) -> tuple[str, str]:
    """In the function of a share: its first iteration, and the end of its range.

    All shares but the last have a multiple of ``grain`` iterations.
    """
    def word(name: str) -> str:
        where = code.address("i8", "%job", at(name))
        return code.load("i64", where, hint=name)

    def begin(s: str) -> str:
        first = code.arith("udiv", "i64", code.arith("mul", "i64", grains, s, flags="nuw nsw"), shares)
        return code.arith("mul", "i64", first, str(grain), flags="nuw nsw") if grain > 1 else first
    trip, shares = word("trip"), word("shares")
    grains = code.arith("udiv", "i64", trip, str(grain)) if grain > 1 else trip
    following = code.arith("add", "i64", "%share", "1", flags="nuw nsw")
    end = begin(following)
    if grain > 1:
        end = code.select(code.icmp("eq", "i64", following, shares, hint="last"), "i64", trip, end)
    return begin("%share"), end


# Makes the contexts, then the threads.  Threads inherit the floating-point state of their creator.
_CREW = """define i64 @jitad.crew(ptr %ctx) nounwind {{
entry:
  %threads.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_threads}
  %threads = load i64, ptr %threads.at, align 8
  %some = icmp sgt i64 %threads, 1
  br i1 %some, label %look, label %one
look:
  %workers.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_workers}
  %workers = load ptr, ptr %workers.at, align 8
  %there = icmp ne ptr %workers, null
  br i1 %there, label %several, label %hire
hire:
  %floats = call i64 @jitad.callers_floats(ptr %ctx)
  %made = call i32 {hire}(ptr %ctx)
  %good = icmp ne i32 %made, 0
  br i1 %good, label %start, label %hired
start:
  call void @jitad.start(ptr %ctx)
  br label %hired
hired:
  call void @jitad.set_floats(i64 %floats)
  br label %several
several:
  %ready = load i64, ptr %threads.at, align 8
  ret i64 %ready
one:
  ret i64 1
}}
"""

# Starts a thread for each of the workers.  If the system refuses one, there are only those before it.
_START = """define internal void @jitad.start(ptr %ctx) cold {{
entry:
  %id = alloca i64, align 8
  %threads.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_threads}
  %threads = load i64, ptr %threads.at, align 8
  %workers.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_workers}
  %workers = load ptr, ptr %workers.at, align 8
  br label %each
each:
  %t = phi i64 [ 1, %entry ], [ %t1, %made ]
  %more = icmp slt i64 %t, %threads
  br i1 %more, label %make, label %done
make:
  %before = sub i64 %t, 1
  %my.at = getelementptr inbounds ptr, ptr %workers, i64 %before
  %my = load ptr, ptr %my.at, align 8
  %number.at = getelementptr inbounds i8, ptr %my, i64 {ctx_number}
  store i64 %t, ptr %number.at, align 8
  %wake.at = getelementptr inbounds i8, ptr %my, i64 {ctx_wake}
  %wake = load ptr, ptr %wake.at, align 8
  %semaphore = call i32 {sem_init}(ptr %wake, i32 0, i32 0)
  %status = call i32 {pthread_create}(ptr %id, ptr null, ptr @jitad.worker, ptr %my)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %made, label %refused
made:
  %thread = load i64, ptr %id, align 8
  %detached = call i32 {pthread_detach}(i64 %thread)
  %t1 = add i64 %t, 1
  br label %each
refused:
  store i64 %t, ptr %threads.at, align 8
  br label %done
done:
  ret void
}}
"""

_TEXTS = {"crew": _CREW, "start": _START, **work_stealing.TEXTS}
ROUTINES = ("jitad.team", "jitad.crew")
