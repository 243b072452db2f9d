"""Routines that run a job on several threads.

A *job* is a row of 64-bit words in the caller's stack frame: ``HEAD``, then the arguments of the loop's function.
The iterations are divided into *shares* of equal length, as many as there should be threads, so that results do not
depend on the number of threads that actually run.  If the work of an iteration grows with its number, there are twice
as many shares, which the threads take in an order that alternates: the first and the last, the second and the last
but one.  A function of the loop's own runs a share (``parallel_calls.py``) and stores its results in the share's row
of the table ``rows``: a status, the operands of a failure, then results.

``stop`` is the first share that need not continue: a failure in a share cancels the later ones, and −1 cancels all.
A thread tests it when it polls, instead of polling for signals.  The calling thread handles signals, both while it
works and while it waits for the other threads, whose remaining shares ``left`` counts.

Each thread works in the floating-point state of the calling thread, ``floats``, and restores its own: the runtime's
threads work for other libraries too, and they inherit the state in which they are created.
"""

from __future__ import annotations

import ctypes
from functools import partial

from ...kernels import openmp
from ..llvm import context, float_state
from ..llvm.capi import function, named, symbols
from ..llvm.code import Code
from ..llvm.emit import Writer
from ..memory import context_runtime

HEAD = ("shares", "threads", "trip", "stop", "left", "context", "rows", "width", "share", "floats")
ROW = ("status", "operand0", "operand1", "operand2", "operand3")
SPINS = 40_000                # tests of ``left`` in a spin loop: some tens of microseconds
PAUSE = 100                   # microseconds between later tests
PATIENCE = 500                # tests between polls for signals


def _openmp(name: str) -> int:
    return openmp.functions()[name]


_OPENMP = {name: named(f"openmp.{name}", partial(_openmp, name)) for name in openmp.FUNCTIONS}
_HIRE = named("hire", lambda: ctypes.cast(context.HIRE, ctypes.c_void_p).value or 0)


def at(field: str) -> int:
    """The byte offset of a word of a job."""
    return 8 * HEAD.index(field)


def run(writer: Writer) -> str:
    """``@name`` of ``i32 (ctx, job)``: runs all shares and returns the status of the first that failed, or 0."""
    return writer.declare("jitad.team", "i32", "ptr, ptr", "nounwind")


def crew(writer: Writer) -> str:
    """``@name`` of ``i64 (ctx)``: returns the number of threads, after making their contexts."""
    return writer.declare("jitad.crew", "i64", "ptr", "nounwind")


def define(writer: Writer) -> None:
    """Write the routines, which all modules share; raises ``DeviceError`` if there is no OpenMP runtime."""
    openmp.functions()
    fields = {f"ctx_{name}": context.offset(name) for name in context.FIELDS}
    words = {f"job_{name}": at(name) for name in HEAD}
    other = {name: function(name) for name in ("usleep", "pthread_self")}
    text = {**_OPENMP, **fields, **words, **other, "interrupt": context.INTERRUPT, "keep": context.KEEP, "spins": SPINS,
            "pause": PAUSE, "patience": PATIENCE, "hire": _HIRE}
    float_state.define(writer)
    for name in ("umax", "usub.sat"):
        writer.declare(f"llvm.{name}.i64", "i64", "i64, i64")
    writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    bodies = {name: body.format(**text) for name, body in _TEXTS.items()}
    for name, body in {"bind": context_runtime.bind_text(), "trim": context_runtime.trim_text(), **bodies}.items():
        writer.function(f"jitad.{name}", body)
        writer.outside(symbols(body))


def bounds(code: Code) -> tuple[str, str]:
    """In the function of a share: its first iteration, and the end of its range."""
    def word(name: str) -> str:
        where = code.address("i8", "%job", at(name))
        return code.load("i64", where, hint=name)

    def begin(s: str) -> str:
        return code.arith("udiv", "i64", code.arith("mul", "i64", trip, s, flags="nuw nsw"), shares)
    trip, shares = word("trip"), word("shares")
    return begin("%share"), begin(code.arith("add", "i64", "%share", "1", flags="nuw nsw"))


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
  call void @jitad.set_floats(i64 %floats)
  %good = icmp ne i32 %made, 0
  br i1 %good, label %several, label %one
several:
  ret i64 %threads
one:
  ret i64 1
}}
"""

# The poll of a worker, instead of a poll for signals: nonzero if this share was cancelled.
_STOPPED = """define internal i32 @jitad.stopped(ptr %ctx) {{
  %job.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_job}
  %job = load ptr, ptr %job.at, align 8
  %share.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_share}
  %share = load i64, ptr %share.at, align 8
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %over = icmp sge i64 %share, %stop
  %status = sext i1 %over to i32
  ret i32 %status
}}
"""

# Runs the shares of thread ``me`` of ``team``.  A failure is recorded with its operands; the arena is restored.
_WORK = """define internal void @jitad.work(ptr %ctx, ptr %job, i64 %me, i64 %team) noinline {{
entry:
  %shares.at = getelementptr inbounds i8, ptr %job, i64 {job_shares}
  %shares = load i64, ptr %shares.at, align 8
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %left.at = getelementptr inbounds i8, ptr %job, i64 {job_left}
  %rows.at = getelementptr inbounds i8, ptr %job, i64 {job_rows}
  %rows = load ptr, ptr %rows.at, align 8
  %width.at = getelementptr inbounds i8, ptr %job, i64 {job_width}
  %width = load i64, ptr %width.at, align 8
  %run.at = getelementptr inbounds i8, ptr %job, i64 {job_share}
  %run = load ptr, ptr %run.at, align 8
  %mine.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_share}
  %operands = getelementptr inbounds i8, ptr %ctx, i64 {ctx_operand0}
  %top.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_arena_top}
  %high.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_arena_high}
  %mark = load i64, ptr %top.at, align 8
  %behind = sub i64 %team, 1
  %fro = sub i64 %behind, %me
  br label %each
each:
  %turn = phi i64 [ 0, %entry ], [ %turn1, %next ]
  %passed = mul i64 %turn, %team
  %odd = trunc i64 %turn to i1
  %mine = select i1 %odd, i64 %fro, i64 %me
  %s = add i64 %passed, %mine
  %over = icmp sge i64 %passed, %shares
  br i1 %over, label %done, label %some
some:
  %there = icmp slt i64 %s, %shares
  br i1 %there, label %look, label %next
look:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %needed = icmp slt i64 %s, %stop
  br i1 %needed, label %go, label %count
go:
  store i64 %s, ptr %mine.at, align 8
  %bytes = mul i64 %s, %width
  %row = getelementptr inbounds i8, ptr %rows, i64 %bytes
  %status = call i32 %run(ptr %ctx, ptr %job, i64 %s, ptr %row)
  %top = load i64, ptr %top.at, align 8
  %high = load i64, ptr %high.at, align 8
  %higher = call i64 @llvm.umax.i64(i64 %top, i64 %high)
  store i64 %higher, ptr %high.at, align 8
  store i64 %mark, ptr %top.at, align 8
  %wide = sext i32 %status to i64
  store i64 %wide, ptr %row, align 8
  %good = icmp eq i32 %status, 0
  br i1 %good, label %count, label %failed
failed:
  %words = getelementptr inbounds i8, ptr %row, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %words, ptr %operands, i64 32, i1 false)
  %poll.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_poll}
  %poll = load ptr, ptr %poll.at, align 8
  %asks = icmp ne ptr %poll, @jitad.stopped
  %ended = icmp eq i32 %status, {interrupt}
  %signal = and i1 %asks, %ended
  %last = select i1 %signal, i64 -1, i64 %s
  %before = atomicrmw min ptr %stop.at, i64 %last monotonic, align 8
  br label %count
count:
  %counted = atomicrmw sub ptr %left.at, i64 1 release, align 8
  br label %next
next:
  %turn1 = add i64 %turn, 1
  br label %each
done:
  ret void
}}
"""

# The function that each thread of the team runs.
_MEMBER = """define internal void @jitad.member(ptr %job) {{
entry:
  %number = call i32 {omp_get_thread_num}()
  %size = call i32 {omp_get_num_threads}()
  %floats.at = getelementptr inbounds i8, ptr %job, i64 {job_floats}
  %floats = load i64, ptr %floats.at, align 8
  %own.floats = call i64 @jitad.floats()
  %me = zext i32 %number to i64
  %team = zext i32 %size to i64
  %ctx.at = getelementptr inbounds i8, ptr %job, i64 {job_context}
  %ctx = load ptr, ptr %ctx.at, align 8
  %first = icmp eq i64 %me, 0
  br i1 %first, label %caller, label %worker
caller:
  call void @jitad.set_floats(i64 %floats)
  call void @jitad.work(ptr %ctx, ptr %job, i64 0, i64 %team)
  call void @jitad.wait(ptr %ctx, ptr %job)
  call void @jitad.set_floats(i64 %own.floats)
  ret void
worker:
  %workers.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_workers}
  %workers = load ptr, ptr %workers.at, align 8
  %before = sub i64 %me, 1
  %my.at = getelementptr inbounds ptr, ptr %workers, i64 %before
  %my = load ptr, ptr %my.at, align 8
  %job.at = getelementptr inbounds i8, ptr %my, i64 {ctx_job}
  store ptr %job, ptr %job.at, align 8
  %poll.at = getelementptr inbounds i8, ptr %my, i64 {ctx_poll}
  store ptr @jitad.stopped, ptr %poll.at, align 8
  %thread.at = getelementptr inbounds i8, ptr %my, i64 {ctx_thread}
  %known = load i64, ptr %thread.at, align 8
  %here = call i64 {pthread_self}()
  %same = icmp eq i64 %known, %here
  br i1 %same, label %bound, label %bind
bind:
  call void @jitad.bind(ptr %my, i64 %here)
  br label %bound
bound:
  call void @jitad.set_floats(i64 %floats)
  call void @jitad.work(ptr %my, ptr %job, i64 %me, i64 %team)
  call void @jitad.set_floats(i64 %own.floats)
  %base.at = getelementptr inbounds i8, ptr %my, i64 {ctx_arena_base}
  %high.at = getelementptr inbounds i8, ptr %my, i64 {ctx_arena_high}
  %base = load i64, ptr %base.at, align 8
  %high = load i64, ptr %high.at, align 8
  %used = sub i64 %high, %base
  %much = icmp ugt i64 %used, {keep}
  br i1 %much, label %trim, label %done
trim:
  call void @jitad.trim(ptr %my, i64 %high)
  br label %done
done:
  ret void
}}
"""

# Waits until no share is left.  Without a poll handler the runtime's own barrier waits instead.
_WAIT = """define internal void @jitad.wait(ptr %ctx, ptr %job) noinline {{
entry:
  %left.at = getelementptr inbounds i8, ptr %job, i64 {job_left}
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %poll.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_poll}
  %poll = load ptr, ptr %poll.at, align 8
  %nobody = icmp eq ptr %poll, null
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp slt i64 %stop, 0
  %silent = or i1 %nobody, %stopped
  br i1 %silent, label %done, label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ]
  %left = load atomic i64, ptr %left.at acquire, align 8
  %n1 = add i64 %n, 1
  %over = icmp sle i64 %left, 0
  br i1 %over, label %done, label %more
more:
  %soon = icmp slt i64 %n, {spins}
  br i1 %soon, label %again, label %sleep
sleep:
  %slept = call i32 {usleep}(i32 {pause})
  %turn = urem i64 %n, {patience}
  %now = icmp eq i64 %turn, 0
  br i1 %now, label %ask, label %again
ask:
  %status = call i32 %poll(ptr %ctx)
  %quiet = icmp eq i32 %status, 0
  br i1 %quiet, label %again, label %end
end:
  store atomic i64 -1, ptr %stop.at monotonic, align 8
  br label %done
again:
  br label %look
done:
  ret void
}}
"""

# The caller's own polls handle signals: an interrupt of its share cancels the others.
_TEAM = """define i32 @jitad.team(ptr %ctx, ptr %job) nounwind {{
entry:
  %shares.at = getelementptr inbounds i8, ptr %job, i64 {job_shares}
  %shares = load i64, ptr %shares.at, align 8
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %left.at = getelementptr inbounds i8, ptr %job, i64 {job_left}
  %rows.at = getelementptr inbounds i8, ptr %job, i64 {job_rows}
  %rows = load ptr, ptr %rows.at, align 8
  %width.at = getelementptr inbounds i8, ptr %job, i64 {job_width}
  %width = load i64, ptr %width.at, align 8
  %ctx.at = getelementptr inbounds i8, ptr %job, i64 {job_context}
  store ptr %ctx, ptr %ctx.at, align 8
  store i64 %shares, ptr %stop.at, align 8
  store i64 %shares, ptr %left.at, align 8
  %threads.at = getelementptr inbounds i8, ptr %job, i64 {job_threads}
  %threads = load i64, ptr %threads.at, align 8
  %count = trunc i64 %threads to i32
  %floats.at = getelementptr inbounds i8, ptr %job, i64 {job_floats}
  %floats = call i64 @jitad.callers_floats(ptr %ctx)
  store i64 %floats, ptr %floats.at, align 8
  call void {GOMP_parallel}(ptr @jitad.member, ptr %job, i32 %count, i32 0)
  call void @jitad.set_floats(i64 %floats)
  %stop = load i64, ptr %stop.at, align 8
  %interrupted = icmp slt i64 %stop, 0
  br i1 %interrupted, label %interrupt, label %settle
interrupt:
  ret i32 {interrupt}
settle:
  %good = icmp eq i64 %stop, %shares
  br i1 %good, label %fine, label %bad
fine:
  ret i32 0
bad:
  %bytes = mul i64 %stop, %width
  %row = getelementptr inbounds i8, ptr %rows, i64 %bytes
  %words = getelementptr inbounds i8, ptr %row, i64 8
  %operands = getelementptr inbounds i8, ptr %ctx, i64 {ctx_operand0}
  call void @llvm.memcpy.p0.p0.i64(ptr %operands, ptr %words, i64 32, i1 false)
  %wide = load i64, ptr %row, align 8
  %status = trunc i64 %wide to i32
  ret i32 %status
}}
"""

_TEXTS = {"crew": _CREW, "stopped": _STOPPED, "work": _WORK, "member": _MEMBER, "wait": _WAIT, "team": _TEAM}
ROUTINES = ("jitad.team", "jitad.crew")
