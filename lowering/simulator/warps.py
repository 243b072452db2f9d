"""Shuffles and ballots of a warp, in LLVM IR, in the notation of ``state.expanded``.

::

    i64 @gpu.warp(ptr %s, i64 first)       exchanges operands if all lanes wait; 1 if they are ready again

If only some lanes of a warp wait, or they wait at different places, the launch ends.
"""

from __future__ import annotations

from . import state

TEXT = f"""
define internal i64 @gpu.warp(ptr %s, i64 %first) nounwind {{
entry:
  %fibers = get ptr fibers
  %size = get i64 block_size
  %left = sub i64 %size, %first
  %lanes = call i64 @llvm.umin.i64(i64 %left, i64 {state.WARP})
  %start = mul i64 %first, {state.RECORD_SIZE}
  %lane0 = getelementptr i8, ptr %fibers, i64 %start
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %looked ]
  %waiting = phi i64 [ 0, %entry ], [ %waiting.next, %looked ]
  %ballot = phi i64 [ 0, %entry ], [ %ballot.next, %looked ]
  %going = icmp ult i64 %i, %lanes
  br i1 %going, label %one, label %judge
one:
  %offset = mul i64 %i, {state.RECORD_SIZE}
  %lane = getelementptr i8, ptr %lane0, i64 %offset
  %status = get i64 status of %lane
  %waits = icmp eq i64 %status, {state.AT_WARP}
  %i.next = add i64 %i, 1
  br i1 %waits, label %compare, label %looked
compare:
  %site = get i64 site of %lane
  %site0 = get i64 site of %lane0
  %same = icmp eq i64 %site, %site0
  %count = zext i1 %same to i64
  %value = get i64 value of %lane
  %bit = and i64 %value, 1
  %shifted = shl i64 %bit, %i
  br label %looked
looked:
  %found = phi i64 [ 0, %one ], [ 1, %compare ]
  %counted = phi i64 [ 0, %one ], [ %count, %compare ]
  %flag = phi i64 [ 0, %one ], [ %shifted, %compare ]
  %both = shl i64 %found, 32
  %more = add i64 %both, %counted
  %waiting.next = add i64 %waiting, %more
  %ballot.next = or i64 %ballot, %flag
  br label %look
judge:
  %none = icmp eq i64 %waiting, 0
  br i1 %none, label %idle, label %complete
idle:
  ret i64 0
complete:
  %all = icmp eq i64 %waiting, {state.WARP << 32 | state.WARP}
  br i1 %all, label %exchange, label %misuse
misuse:
  put i64 {state.WARP_MISUSE}, failure
  put i64 {state.STOP}, event
  put i64 %first, other
  ret i64 0
exchange:
  %k = phi i64 [ 0, %complete ], [ %k.next, %given ]
  %k.offset = mul i64 %k, {state.RECORD_SIZE}
  %to = getelementptr i8, ptr %lane0, i64 %k.offset
  %operation = get i64 operation of %to
  %operand = get i64 operand of %to
  %down = add i64 %k, %operand
  %xor = xor i64 %k, %operand
  %is_down = icmp eq i64 %operation, {state.DOWN}
  %far = select i1 %is_down, i64 %down, i64 %xor
  %inside = icmp ult i64 %far, {state.WARP}
  %source = select i1 %inside, i64 %far, i64 %k
  %source.offset = mul i64 %source, {state.RECORD_SIZE}
  %from = getelementptr i8, ptr %lane0, i64 %source.offset
  %given.value = get i64 value of %from
  %shuffles = icmp ule i64 %operation, {state.XOR}
  br label %given
given:
  %result = select i1 %shuffles, i64 %given.value, i64 %ballot
  put i64 %result, result of %to
  put i64 {state.READY}, status of %to
  %k.next = add i64 %k, 1
  %ended = icmp eq i64 %k.next, {state.WARP}
  br i1 %ended, label %released, label %exchange
released:
  ret i64 1
}}
"""
