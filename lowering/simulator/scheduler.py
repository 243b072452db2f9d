"""The runtime in LLVM IR that runs the threads of a grid, in the notation of ``state.expanded``.

::

    void @gpu.run(ptr %s)                  all blocks; returns early if ``failure`` is set
    void @gpu.join(ptr %s, …)              a thread waits for the others
    void @gpu.stop(ptr %s, i64 failure)    ends the launch; does not return

Blocks run one after another.  A *pass* lets each thread that is ready run up to the next point where it waits for
others.  Then warps whose lanes all wait at the same shuffle exchange their operands.  If no thread is ready after that,
all of them must wait at the same barrier, or be done: since each thread has run as far as it can, a thread that is
elsewhere will never come.  ``order`` permutes the threads of a pass, and ``blocks`` the blocks.

In a kernel without barriers and shuffles, the threads need no stacks of their own: the function of ``entry`` contains
the loops over blocks and threads, and runs as a single fiber.
"""

from __future__ import annotations

from . import fibers, state, warps
from .state import expanded

DECLARATIONS = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
"""

_YIELD = f"""
define internal void @gpu.yield(ptr %s) nounwind {{
  %me = get ptr current
  %save = at stack of %me
  %to = get ptr scheduler
  call void @gpu.switch(ptr %save, ptr %to, ptr null)
  ret void
}}

define internal void @gpu.main(ptr %s) nounwind noreturn {{
  %entry = get ptr entry
  %args = get ptr args
  call void %entry(ptr %args)
  %me = get ptr current
  put i64 {state.DONE}, status of %me
  call void @gpu.yield(ptr %s)
  unreachable
}}

define void @gpu.stop(ptr %s, i64 %failure) nounwind noreturn cold {{
  put i64 %failure, failure
  put i64 {state.STOP}, event
  call void @gpu.yield(ptr %s)
  unreachable
}}

define void @gpu.ask(ptr %s) nounwind cold {{
  put i64 {state.POLL}, event
  call void @gpu.yield(ptr %s)
  ret void
}}

define void @gpu.wait(ptr %s, i32 %site) nounwind {{
  %me = get ptr current
  %place = zext i32 %site to i64
  put i64 %place, site of %me
  put i64 {state.AT_BARRIER}, status of %me
  call void @gpu.yield(ptr %s)
  ret void
}}

define i64 @gpu.exchange(ptr %s, i32 %site, i64 %operation, i64 %value, i64 %operand) nounwind {{
  %me = get ptr current
  %place = zext i32 %site to i64
  put i64 %place, site of %me
  put i64 {state.AT_WARP}, status of %me
  put i64 %operation, operation of %me
  put i64 %value, value of %me
  put i64 %operand, operand of %me
  call void @gpu.yield(ptr %s)
  %result = get i64 result of %me
  ret i64 %result
}}
"""

# Signal handlers run on the stack of the operating system's thread, whose bounds CPython may check.
_RESUME = f"""
define internal i64 @gpu.signals(ptr %s) nounwind cold {{
  %restore = get ptr restore
  %save = get ptr save
  %signals = get ptr signals
  %python = get ptr python
  put i64 {state.PERIOD}, polls
  call void %restore(ptr %python)
  %stop = call i32 %signals()
  %again = call ptr %save()
  put ptr %again, python
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %stopped, label %done
stopped:
  put i64 {state.INTERRUPTED}, failure
  put i64 {state.STOP}, event
  br label %done
done:
  %result = zext i1 %stops to i64
  ret i64 %result
}}

define internal void @gpu.resume(ptr %s, ptr %fiber) nounwind {{
entry:
  put ptr %fiber, current
  %save = at scheduler
  br label %go
go:
  %to = get ptr stack of %fiber
  call void @gpu.switch(ptr %save, ptr %to, ptr %s)
  %event = get i64 event
  %asks = icmp eq i64 %event, {state.POLL}
  br i1 %asks, label %ask, label %done
ask:
  put i64 {state.NOTHING}, event
  %stop = call i64 @gpu.signals(ptr %s)
  %going = icmp eq i64 %stop, 0
  br i1 %going, label %go, label %done
done:
  ret void
}}

define internal void @gpu.start(ptr %s, ptr %fiber, i64 %number) nounwind {{
  %stacks = get ptr stacks
  %next = add i64 %number, 1
  %offset = mul i64 %next, {fibers.STRIDE}
  %end = getelementptr i8, ptr %stacks, i64 %offset
  %colour = and i64 %number, {fibers.COLOURS - 1}
  %shift = mul i64 %colour, {-fibers.COLOUR}
  %top = getelementptr i8, ptr %end, i64 %shift
  %stack = call ptr @gpu.fresh(ptr %top)
  put ptr %stack, stack of %fiber
  put i64 {state.READY}, status of %fiber
  ret void
}}

define internal void @gpu.limit(ptr %s, i64 %number) nounwind {{
  %stacks = get i64 stacks
  %offset = mul i64 %number, {fibers.STRIDE}
  %low = add i64 %stacks, %offset
  %limit = add i64 %low, {fibers.GUARD + fibers.MARGIN}
  put i64 %limit, stack_limit
  ret void
}}

define internal void @gpu.next_epoch(ptr %s) nounwind {{
  %epoch = get i64 epoch
  %next = add i64 %epoch, 1
  put i64 %next, epoch
  ret void
}}
"""

def _permuted(name: str) -> str:
    """The blocks from ``%choose``: ``%name`` is number i of the permutation ``%order``, or i itself."""
    return f"""choose:
  br i1 %ordered, label %permuted, label %chosen
permuted:
  %at.order = getelementptr i32, ptr %order, i64 %i
  %short = load i32, ptr %at.order, align 4
  %long = zext i32 %short to i64
  br label %chosen
chosen:
  %{name} = phi i64 [ %i, %choose ], [ %long, %permuted ]"""


_BLOCK = f"""
define internal void @gpu.run_block(ptr %s) nounwind {{
entry:
  %fibers = get ptr fibers
  %size = get i64 block_size
  %order = get ptr order
  %ordered = icmp ne ptr %order, null
  %memory = get ptr shared
  %bytes = get i64 shared_bytes
  call void @llvm.memset.p0.i64(ptr %memory, i8 -1, i64 %bytes, i1 false)
  call void @gpu.next_epoch(ptr %s)
  br label %start
start:
  %n = phi i64 [ 0, %entry ], [ %n.next, %start ]
  %n.offset = mul i64 %n, {state.RECORD_SIZE}
  %new = getelementptr i8, ptr %fibers, i64 %n.offset
  call void @gpu.start(ptr %s, ptr %new, i64 %n)
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %size
  br i1 %more, label %start, label %pass
pass:
  br label %next
next:
  %i = phi i64 [ 0, %pass ], [ %i.next, %ran ]
  %going = icmp ult i64 %i, %size
  br i1 %going, label %choose, label %warps
{_permuted("thread")}
  %offset = mul i64 %thread, {state.RECORD_SIZE}
  %fiber = getelementptr i8, ptr %fibers, i64 %offset
  %status = get i64 status of %fiber
  %i.next = add i64 %i, 1
  %ready = icmp eq i64 %status, {state.READY}
  br i1 %ready, label %run, label %ran
run:
  put i64 %thread, thread
  call void @gpu.limit(ptr %s, i64 %thread)
  call void @gpu.resume(ptr %s, ptr %fiber)
  %event = get i64 event
  %stops = icmp ne i64 %event, {state.NOTHING}
  br i1 %stops, label %stopped, label %ran
ran:
  br label %next
warps:
  %w = phi i64 [ 0, %next ], [ %w.next, %warp ]
  %released = phi i64 [ 0, %next ], [ %released.next, %warp ]
  %inside = icmp ult i64 %w, %size
  br i1 %inside, label %warp, label %judge
warp:
  %freed = call i64 @gpu.warp(ptr %s, i64 %w)
  %released.next = or i64 %released, %freed
  %w.next = add i64 %w, {state.WARP}
  %warp.event = get i64 event
  %warp.stops = icmp ne i64 %warp.event, {state.NOTHING}
  br i1 %warp.stops, label %stopped, label %warps
judge:
  %again = icmp ne i64 %released, 0
  br i1 %again, label %pass, label %compare
compare:
  %status0 = get i64 status of %fibers
  %site0 = get i64 site of %fibers
  %finished = icmp eq i64 %status0, {state.DONE}
  br label %one
one:
  %k = phi i64 [ 0, %compare ], [ %k.next, %same ]
  %k.more = icmp ult i64 %k, %size
  br i1 %k.more, label %look, label %together
look:
  %k.offset = mul i64 %k, {state.RECORD_SIZE}
  %other = getelementptr i8, ptr %fibers, i64 %k.offset
  %k.status = get i64 status of %other
  %k.site = get i64 site of %other
  %as = icmp eq i64 %k.status, %status0
  %at = icmp eq i64 %k.site, %site0
  %there = or i1 %at, %finished
  %agrees = and i1 %as, %there
  br i1 %agrees, label %same, label %misuse
same:
  %k.next = add i64 %k, 1
  br label %one
misuse:
  put i64 {state.BARRIER_MISUSE}, failure
  put i64 {state.STOP}, event
  ret void
together:
  br i1 %finished, label %stopped, label %release
release:
  call void @gpu.next_epoch(ptr %s)
  br label %ready.again
ready.again:
  %r = phi i64 [ 0, %release ], [ %r.next, %ready.again ]
  %r.offset = mul i64 %r, {state.RECORD_SIZE}
  %waiter = getelementptr i8, ptr %fibers, i64 %r.offset
  put i64 {state.READY}, status of %waiter
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %size
  br i1 %r.more, label %ready.again, label %pass
stopped:
  ret void
}}
"""

_RUN = f"""
define void @gpu.run(ptr %s) nounwind {{
entry:
  %save = get ptr save
  %python = call ptr %save()
  put ptr %python, python
  put i64 {state.PERIOD}, polls
  %plain = get i64 plain
  %single = icmp ne i64 %plain, 0
  br i1 %single, label %once, label %grid
once:
  %fiber = get ptr fibers
  call void @gpu.start(ptr %s, ptr %fiber, i64 0)
  call void @gpu.limit(ptr %s, i64 0)
  call void @gpu.next_epoch(ptr %s)
  call void @gpu.resume(ptr %s, ptr %fiber)
  br label %done
grid:
  %count = get i64 grid
  %order = get ptr blocks
  %ordered = icmp ne ptr %order, null
  %size = get i64 block_size
  br label %next
next:
  %i = phi i64 [ 0, %grid ], [ %i.next, %polled ]
  %going = icmp ult i64 %i, %count
  br i1 %going, label %choose, label %done
{_permuted("block")}
  put i64 %block, block
  call void @gpu.run_block(ptr %s)
  %event = get i64 event
  %stops = icmp ne i64 %event, {state.NOTHING}
  br i1 %stops, label %done, label %poll
poll:
  %polls = get i64 polls
  %rest = sub i64 %polls, %size
  put i64 %rest, polls
  %due = icmp sle i64 %rest, 0
  %i.next = add i64 %i, 1
  br i1 %due, label %ask, label %polled
ask:
  %stop = call i64 @gpu.signals(ptr %s)
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %done, label %polled
polled:
  br label %next
done:
  %restore = get ptr restore
  %state = get ptr python
  call void %restore(ptr %state)
  ret void
}}
"""

ROUTINES = ("gpu.run", "gpu.stop", "gpu.ask", "gpu.wait", "gpu.exchange")


def text(triple: str) -> str:
    """The runtime's functions as LLVM IR."""
    parts = (_YIELD, _RESUME, warps.TEXT, _BLOCK, _RUN)
    return "\n".join([fibers.switch_text(triple), DECLARATIONS, fibers.fresh_text(triple), *map(expanded, parts)])
