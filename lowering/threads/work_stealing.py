"""Routines that offer a job, run its shares, and wait for the workers (``thread_pool.py``), as LLVM IR."""

from __future__ import annotations

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

# Wakes the two threads below thread ``me`` in the tree, if they sleep.
_WAKE = """define internal void @jitad.wake(ptr %home, i64 %me, i64 %team) noinline {{
entry:
  %workers.at = getelementptr inbounds i8, ptr %home, i64 {ctx_workers}
  %workers = load ptr, ptr %workers.at, align 8
  %first = shl i64 %me, 1
  %end = add i64 %first, 2
  br label %each
each:
  %t = phi i64 [ %first, %entry ], [ %t1, %next ]
  %mine = icmp slt i64 %t, %end
  %t1 = add i64 %t, 1
  %there = icmp slt i64 %t1, %team
  %both = and i1 %mine, %there
  br i1 %both, label %look, label %done
look:
  %its.at = getelementptr inbounds ptr, ptr %workers, i64 %t
  %its = load ptr, ptr %its.at, align 8
  %asleep.at = getelementptr inbounds i8, ptr %its, i64 {ctx_asleep}
  %sleeps = load atomic i64, ptr %asleep.at seq_cst, align 8
  %may = icmp ne i64 %sleeps, 0
  br i1 %may, label %claim, label %next
claim:
  %slept = atomicrmw xchg ptr %asleep.at, i64 0 seq_cst, align 8
  %asleep = icmp ne i64 %slept, 0
  br i1 %asleep, label %post, label %next
post:
  %wake.at = getelementptr inbounds i8, ptr %its, i64 {ctx_wake}
  %wake = load ptr, ptr %wake.at, align 8
  %posted = call i32 {sem_post}(ptr %wake)
  br label %next
next:
  br label %each
done:
  ret void
}}
"""

# Runs shares as thread ``me``: its own, then those of the threads behind it.  A failure is recorded with its operands;
# the arena is restored.
_WORK = """define internal void @jitad.work(ptr %ctx, ptr %job, i64 %me) noinline {{
entry:
  %shares.at = getelementptr inbounds i8, ptr %job, i64 {job_shares}
  %shares = load i64, ptr %shares.at, align 8
  %team.at = getelementptr inbounds i8, ptr %job, i64 {job_threads}
  %team = load i64, ptr %team.at, align 8
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %rows.at = getelementptr inbounds i8, ptr %job, i64 {job_rows}
  %rows = load ptr, ptr %rows.at, align 8
  %width.at = getelementptr inbounds i8, ptr %job, i64 {job_width}
  %width = load i64, ptr %width.at, align 8
  %run.at = getelementptr inbounds i8, ptr %job, i64 {job_share}
  %run = load ptr, ptr %run.at, align 8
  %home.at = getelementptr inbounds i8, ptr %job, i64 {job_context}
  %home = load ptr, ptr %home.at, align 8
  %workers.at = getelementptr inbounds i8, ptr %home, i64 {ctx_workers}
  %workers = load ptr, ptr %workers.at, align 8
  %mine.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_share}
  %operands = getelementptr inbounds i8, ptr %ctx, i64 {ctx_operand0}
  %top.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_arena_top}
  %high.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_arena_high}
  %mark = load i64, ptr %top.at, align 8
  br label %each
each:
  %turn = phi i64 [ 0, %entry ], [ %turn1, %next ]
  %turn1 = add i64 %turn, 1
  %over = icmp sge i64 %turn, %team
  br i1 %over, label %done, label %whose
whose:
  %sum = add i64 %me, %turn
  %around = icmp sge i64 %sum, %team
  %less = sub i64 %sum, %team
  %t = select i1 %around, i64 %less, i64 %sum
  %caller = icmp eq i64 %t, 0
  br i1 %caller, label %owned, label %other
other:
  %before = sub i64 %t, 1
  %its.at = getelementptr inbounds ptr, ptr %workers, i64 %before
  %its = load ptr, ptr %its.at, align 8
  br label %owned
owned:
  %owner = phi ptr [ %home, %whose ], [ %its, %other ]
  %queue.at = getelementptr inbounds i8, ptr %owner, i64 {ctx_queue}
  %t1 = add i64 %t, 1
  %portion = mul i64 %t1, %shares
  %end = udiv i64 %portion, %team
  br label %claim
claim:
  %seen = load atomic i64, ptr %queue.at monotonic, align 8
  %some = icmp slt i64 %seen, %end
  br i1 %some, label %take, label %next
take:
  %s = atomicrmw add ptr %queue.at, i64 1 monotonic, align 8
  %there = icmp slt i64 %s, %end
  br i1 %there, label %look, label %next
look:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %needed = icmp slt i64 %s, %stop
  br i1 %needed, label %go, label %claim
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
  br i1 %good, label %claim, label %failed
failed:
  %words = getelementptr inbounds i8, ptr %row, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %words, ptr %operands, i64 32, i1 false)
  %poll.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_poll}
  %poll = load ptr, ptr %poll.at, align 8
  %asks = icmp ne ptr %poll, @jitad.stopped
  %ended = icmp eq i32 %status, {interrupt}
  %signal = and i1 %asks, %ended
  %last = select i1 %signal, i64 -1, i64 %s
  %first = atomicrmw min ptr %stop.at, i64 %last monotonic, align 8
  br label %claim
next:
  br label %each
done:
  ret void
}}
"""

# The function of a worker's thread, which never ends.
_WORKER = """define internal ptr @jitad.worker(ptr %ctx) {{
entry:
  %here = call i64 {pthread_self}()
  call void @jitad.bind(ptr %ctx, i64 %here)
  %poll.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_poll}
  store ptr @jitad.stopped, ptr %poll.at, align 8
  %number.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_number}
  %me = load i64, ptr %number.at, align 8
  %wake.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_wake}
  %wake = load ptr, ptr %wake.at, align 8
  %offer.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_offer}
  %job.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_job}
  %asleep.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_asleep}
  %base.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_arena_base}
  %high.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_arena_high}
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n1, %again ], [ 0, %sleep ], [ 0, %retire ]
  %n1 = add i64 %n, 1
  %offered = load atomic ptr, ptr %offer.at monotonic, align 8
  %there = icmp ne ptr %offered, null
  br i1 %there, label %accept, label %nothing
nothing:
  %soon = icmp slt i64 %n, {spins}
  br i1 %soon, label %pause, label %tire
pause:
  {rest}
  br label %again
again:
  br label %look
tire:
  store atomic i64 1, ptr %asleep.at seq_cst, align 8
  %late = load atomic ptr, ptr %offer.at seq_cst, align 8
  %none = icmp eq ptr %late, null
  br i1 %none, label %sleep, label %accept
sleep:
  %woken = call i32 {sem_wait}(ptr %wake)
  br label %look
accept:
  %job = phi ptr [ %offered, %look ], [ %late, %tire ]
  %pair = cmpxchg ptr %offer.at, ptr %job, ptr inttoptr (i64 {taken} to ptr) seq_cst seq_cst, align 8
  %won = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %won, label %work, label %again
work:
  %team.at = getelementptr inbounds i8, ptr %job, i64 {job_threads}
  %team = load i64, ptr %team.at, align 8
  %home.at = getelementptr inbounds i8, ptr %job, i64 {job_context}
  %home = load ptr, ptr %home.at, align 8
  call void @jitad.wake(ptr %home, i64 %me, i64 %team)
  %floats.at = getelementptr inbounds i8, ptr %job, i64 {job_floats}
  %floats = load i64, ptr %floats.at, align 8
  call void @jitad.set_floats(i64 %floats)
  store ptr %job, ptr %job.at, align 8
  call void @jitad.work(ptr %ctx, ptr %job, i64 %me)
  %base = load i64, ptr %base.at, align 8
  %high = load i64, ptr %high.at, align 8
  %used = sub i64 %high, %base
  %much = icmp ugt i64 %used, {keep}
  br i1 %much, label %trim, label %retire
trim:
  call void @jitad.trim(ptr %ctx, i64 %high)
  br label %retire
retire:
  store atomic ptr null, ptr %offer.at release, align 8
  br label %look
}}
"""

# Withdraws the offer to a worker, or waits until the worker has done its part.  Signals cancel the shares.
_SETTLE = """define internal void @jitad.settle(ptr %ctx, ptr %job, ptr %its) noinline {{
entry:
  %offer.at = getelementptr inbounds i8, ptr %its, i64 {ctx_offer}
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %poll.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_poll}
  %poll = load ptr, ptr %poll.at, align 8
  %silent = icmp eq ptr %poll, null
  %pair = cmpxchg ptr %offer.at, ptr %job, ptr null seq_cst seq_cst, align 8
  %withdrawn = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %withdrawn, label %done, label %taken
taken:
  %needed.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_needed}
  store i64 {waking}, ptr %needed.at, align 8
  br label %look
look:
  %n = phi i64 [ 0, %taken ], [ %n1, %again ]
  %n1 = add i64 %n, 1
  %word = load atomic ptr, ptr %offer.at acquire, align 8
  %over = icmp eq ptr %word, null
  br i1 %over, label %done, label %more
more:
  %soon = icmp slt i64 %n, {spins}
  br i1 %soon, label %pause, label %sleep
pause:
  {rest}
  br label %again
sleep:
  %slept = call i32 {usleep}(i32 {pause})
  %turn = urem i64 %n, {patience}
  %now = icmp eq i64 %turn, 0
  br i1 %now, label %ask, label %again
ask:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp slt i64 %stop, 0
  %quiet = or i1 %silent, %stopped
  br i1 %quiet, label %again, label %signals
signals:
  %status = call i32 %poll(ptr %ctx)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %again, label %cancel
cancel:
  store atomic i64 -1, ptr %stop.at monotonic, align 8
  br label %again
again:
  br label %look
done:
  ret void
}}
"""

# Runs a job: fills the queues, offers the job, works, and settles with each worker.
_TEAM = """define i32 @jitad.team(ptr %ctx, ptr %job) nounwind {{
entry:
  %shares.at = getelementptr inbounds i8, ptr %job, i64 {job_shares}
  %shares = load i64, ptr %shares.at, align 8
  %stop.at = getelementptr inbounds i8, ptr %job, i64 {job_stop}
  %rows.at = getelementptr inbounds i8, ptr %job, i64 {job_rows}
  %rows = load ptr, ptr %rows.at, align 8
  %width.at = getelementptr inbounds i8, ptr %job, i64 {job_width}
  %width = load i64, ptr %width.at, align 8
  %home.at = getelementptr inbounds i8, ptr %job, i64 {job_context}
  store ptr %ctx, ptr %home.at, align 8
  store i64 %shares, ptr %stop.at, align 8
  %team.at = getelementptr inbounds i8, ptr %job, i64 {job_threads}
  %team = load i64, ptr %team.at, align 8
  %floats.at = getelementptr inbounds i8, ptr %job, i64 {job_floats}
  %floats = call i64 @jitad.floats()
  store i64 %floats, ptr %floats.at, align 8
  %workers.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_workers}
  %workers = load ptr, ptr %workers.at, align 8
  %queue.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_queue}
  store atomic i64 0, ptr %queue.at monotonic, align 8
  br label %begin
begin:
  %q = phi i64 [ 1, %entry ], [ %q1, %started ]
  %q1 = add i64 %q, 1
  %queued = icmp sge i64 %q, %team
  br i1 %queued, label %offers, label %started
started:
  %before.q = sub i64 %q, 1
  %q.at = getelementptr inbounds ptr, ptr %workers, i64 %before.q
  %of.q = load ptr, ptr %q.at, align 8
  %its.queue.at = getelementptr inbounds i8, ptr %of.q, i64 {ctx_queue}
  %portion = mul i64 %q, %shares
  %start = udiv i64 %portion, %team
  store atomic i64 %start, ptr %its.queue.at monotonic, align 8
  br label %begin
offers:
  br label %each
each:
  %t = phi i64 [ 1, %offers ], [ %t1, %offer ]
  %t1 = add i64 %t, 1
  %all = icmp sge i64 %t, %team
  br i1 %all, label %go, label %offer
offer:
  %before.t = sub i64 %t, 1
  %t.at = getelementptr inbounds ptr, ptr %workers, i64 %before.t
  %of.t = load ptr, ptr %t.at, align 8
  %offer.at = getelementptr inbounds i8, ptr %of.t, i64 {ctx_offer}
  store atomic ptr %job, ptr %offer.at seq_cst, align 8
  br label %each
go:
  %time.at = getelementptr inbounds i8, ptr %job, i64 {job_time}
  %time = load i64, ptr %time.at, align 8
  %first = load ptr, ptr %workers, align 8
  %asleep.at = getelementptr inbounds i8, ptr %first, i64 {ctx_asleep}
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %sleeps = icmp ne i64 %asleep, 0
  %short = icmp ult i64 %time, {waking}
  %lazy = and i1 %sleeps, %short
  br i1 %lazy, label %consider, label %wake
consider:
  %missed.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_missed}
  %before = load i64, ptr %missed.at, align 8
  %missed = add i64 %before, %time
  %needed.at = getelementptr inbounds i8, ptr %ctx, i64 {ctx_needed}
  %least = load i64, ptr %needed.at, align 8
  %needed = call i64 @llvm.umax.i64(i64 %least, i64 {waking})
  %due = icmp uge i64 %missed, %needed
  %rest = select i1 %due, i64 0, i64 %missed
  store i64 %rest, ptr %missed.at, align 8
  br i1 %due, label %try, label %begun
try:
  %twice = shl i64 %needed, 1
  %more = call i64 @llvm.umin.i64(i64 %twice, i64 {most})
  store i64 %more, ptr %needed.at, align 8
  br label %wake
wake:
  call void @jitad.wake(ptr %ctx, i64 0, i64 %team)
  br label %begun
begun:
  call void @jitad.work(ptr %ctx, ptr %job, i64 0)
  br label %end
end:
  %w = phi i64 [ 1, %begun ], [ %w1, %settle ]
  %w1 = add i64 %w, 1
  %settled = icmp sge i64 %w, %team
  br i1 %settled, label %over, label %settle
settle:
  %before.w = sub i64 %w, 1
  %w.at = getelementptr inbounds ptr, ptr %workers, i64 %before.w
  %of.w = load ptr, ptr %w.at, align 8
  call void @jitad.settle(ptr %ctx, ptr %job, ptr %of.w)
  br label %end
over:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %interrupted = icmp slt i64 %stop, 0
  br i1 %interrupted, label %interrupt, label %finish
interrupt:
  ret i32 {interrupt}
finish:
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

TEXTS = {"stopped": _STOPPED, "wake": _WAKE, "work": _WORK, "worker": _WORKER, "settle": _SETTLE, "team": _TEAM}
