"""LLVM routines that release memory of the arena; ``arena.py`` explains their purpose.

A module declares ``ROUTINES``.  The JIT compiles them once for all modules; self-contained code defines them.
Both take a table of ``n`` arrays, each a pointer and a number of bytes, and replace the pointers of the arrays that
they move.  A *fresh* array was allocated above the mark.  Addresses are integers here.
"""

from __future__ import annotations

from ..llvm import context
from ..llvm.emit import Writer

# The words of a loop: its mark; the address ``space`` and size ``half`` of the two spaces; the space in use (0 or 1);
# the top up to which there is nothing to release (``SETTLED``), so that iterations that allocate nothing do not call.
LOOP_WORDS, SETTLED = 5, 4

SHIFT, CACHED = 1, 1 << 18
"""``recycle`` moves nothing while what lies above the mark is at most ``2 ** SHIFT`` times as large as the arrays that
it would move, fits a second-level cache, and leaves room: a time stepper then copies its arrays in every third or
fourth step only."""

_FIELDS = """  %top.at = getelementptr inbounds i8, ptr %ctx, i64 {top}
  %high.at = getelementptr inbounds i8, ptr %ctx, i64 {high}
  %end.at = getelementptr inbounds i8, ptr %ctx, i64 {end}
  %top = load i64, ptr %top.at, align 8
  %high = load i64, ptr %high.at, align 8
  %higher = call i64 @llvm.umax.i64(i64 %top, i64 %high)
  store i64 %higher, ptr %high.at, align 8
  %mark = load i64, ptr %state, align 8
  %above = sub i64 %top, %mark
"""

_RECYCLE = """define void @jitad.recycle(ptr %ctx, ptr %state, i64 %n, ptr %table) noinline nounwind {{
entry:
{fields}
  %space.at = getelementptr inbounds i64, ptr %state, i64 1
  %half.at = getelementptr inbounds i64, ptr %state, i64 2
  %side.at = getelementptr inbounds i64, ptr %state, i64 3
  %space = load i64, ptr %space.at, align 8
  %half = load i64, ptr %half.at, align 8
  %side = load i64, ptr %side.at, align 8
  %both = shl i64 %half, 1
  %settled.at = getelementptr inbounds i64, ptr %state, i64 4
  br label %count
count:
  %i = phi i64 [ 0, %entry ], [ %i1, %count.one ]
  %need = phi i64 [ 0, %entry ], [ %need1, %count.one ]
  %fresh = phi i1 [ false, %entry ], [ %fresh1, %count.one ]
  %counted = icmp eq i64 %i, %n
  br i1 %counted, label %decide, label %count.one
count.one:
  %i2 = shl i64 %i, 1
  %at = getelementptr inbounds i64, ptr %table, i64 %i2
  %size.at = getelementptr inbounds i64, ptr %at, i64 1
  %p = load i64, ptr %at, align 8
  %size = load i64, ptr %size.at, align 8
  %over.mark = sub i64 %p, %mark
  %is.fresh = icmp ult i64 %over.mark, %above
  %over.space = sub i64 %p, %space
  %in.space = icmp ult i64 %over.space, %both
  %moves = or i1 %is.fresh, %in.space
  %size63 = add i64 %size, 63
  %rounded = and i64 %size63, -64
  %more = select i1 %moves, i64 %rounded, i64 0
  %need1 = add i64 %need, %more
  %fresh1 = or i1 %fresh, %is.fresh
  %i1 = add i64 %i, 1
  br label %count
decide:
  br i1 %fresh, label %room, label %lower
lower:
  store i64 %mark, ptr %top.at, align 8
  store i64 %mark, ptr %settled.at, align 8
  ret void
room:
  %most = shl i64 %need, {shift}
  %few = icmp ule i64 %above, %most
  %cached = icmp ule i64 %above, {cached}
  %end = load i64, ptr %end.at, align 8
  %free = sub i64 %end, %top
  %wanted = add i64 %most, %above
  %roomy = icmp ule i64 %wanted, %free
  %small = and i1 %few, %cached
  %waits = and i1 %small, %roomy
  br i1 %waits, label %give.up, label %places
places:
  %fits = icmp ule i64 %need, %half
  br i1 %fits, label %move, label %grow
grow:
  %half1 = shl i64 %need, 1
  %top63 = add i64 %top, 63
  %space1 = and i64 %top63, -64
  %both1 = shl i64 %half1, 1
  %mark1 = add i64 %space1, %both1
  %possible = icmp ule i64 %mark1, %end
  br i1 %possible, label %grown, label %give.up
give.up:
  store i64 %top, ptr %settled.at, align 8
  ret void
grown:
  store i64 %mark1, ptr %state, align 8
  store i64 %space1, ptr %space.at, align 8
  store i64 %half1, ptr %half.at, align 8
  br label %move
move:
  %new.mark = phi i64 [ %mark, %places ], [ %mark1, %grown ]
  %new.space = phi i64 [ %space, %places ], [ %space1, %grown ]
  %new.half = phi i64 [ %half, %places ], [ %half1, %grown ]
  %other = xor i64 %side, 1
  store i64 %other, ptr %side.at, align 8
  %shift = mul i64 %other, %new.half
  %to = add i64 %new.space, %shift
  br label %each
each:
  %j = phi i64 [ 0, %move ], [ %j1, %next ]
  %dest = phi i64 [ %to, %move ], [ %dest1, %next ]
  %all = icmp eq i64 %j, %n
  br i1 %all, label %done, label %one
one:
  %j2 = shl i64 %j, 1
  %from.at = getelementptr inbounds i64, ptr %table, i64 %j2
  %bytes.at = getelementptr inbounds i64, ptr %from.at, i64 1
  %from = load i64, ptr %from.at, align 8
  %bytes = load i64, ptr %bytes.at, align 8
  %from.mark = sub i64 %from, %mark
  %from.fresh = icmp ult i64 %from.mark, %above
  %from.space = sub i64 %from, %space
  %from.in = icmp ult i64 %from.space, %both
  %moved = or i1 %from.fresh, %from.in
  br i1 %moved, label %copy, label %next
copy:
  %dest.p = inttoptr i64 %dest to ptr
  %from.p = inttoptr i64 %from to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %dest.p, ptr %from.p, i64 %bytes, i1 false)
  store i64 %dest, ptr %from.at, align 8
  %bytes63 = add i64 %bytes, 63
  %step = and i64 %bytes63, -64
  %dest2 = add i64 %dest, %step
  br label %next
next:
  %dest1 = phi i64 [ %dest, %one ], [ %dest2, %copy ]
  %j1 = add i64 %j, 1
  br label %each
done:
  store i64 %new.mark, ptr %top.at, align 8
  store i64 %new.mark, ptr %settled.at, align 8
  ret void
}}
"""

# Fresh results are moved down, packed, in the order of their addresses.  If two overlap (one is a view of the other)
# nothing is done, and the memory is released with the caller's.
_KEEP = """define void @jitad.keep(ptr %ctx, ptr %state, i64 %n, ptr %table) noinline nounwind {{
entry:
{fields}
  %overlap = call i1 @jitad.overlap(i64 %mark, i64 %top, i64 %n, ptr %table)
  br i1 %overlap, label %stay, label %floors
stay:
  ret void
floors:
  %floor = phi i64 [ %mark, %entry ], [ %floor.end, %place ]
  %dest = phi i64 [ %mark, %entry ], [ %dest.end, %place ]
  br label %search
search:
  %i = phi i64 [ 0, %floors ], [ %i1, %search.one ]
  %best = phi i64 [ -1, %floors ], [ %best1, %search.one ]
  %best.at = phi ptr [ null, %floors ], [ %best.at1, %search.one ]
  %searched = icmp eq i64 %i, %n
  br i1 %searched, label %found, label %search.one
search.one:
  %i2 = shl i64 %i, 1
  %at = getelementptr inbounds i64, ptr %table, i64 %i2
  %size.at = getelementptr inbounds i64, ptr %at, i64 1
  %p = load i64, ptr %at, align 8
  %size = load i64, ptr %size.at, align 8
  %left = icmp uge i64 %p, %floor
  %below = icmp ult i64 %p, %top
  %fresh = and i1 %left, %below
  %some = icmp ne i64 %size, 0
  %open = and i1 %fresh, %some
  %first = icmp ult i64 %p, %best
  %better = and i1 %open, %first
  %best1 = select i1 %better, i64 %p, i64 %best
  %best.at1 = select i1 %better, ptr %at, ptr %best.at
  %i1 = add i64 %i, 1
  br label %search
found:
  %none = icmp eq ptr %best.at, null
  br i1 %none, label %done, label %place
place:
  %bytes.at = getelementptr inbounds i64, ptr %best.at, i64 1
  %bytes = load i64, ptr %bytes.at, align 8
  %floor.end = add i64 %best, %bytes
  %dest63 = add i64 %dest, 63
  %aligned = and i64 %dest63, -64
  %target = call i64 @llvm.umin.i64(i64 %aligned, i64 %best)
  %target.p = inttoptr i64 %target to ptr
  %best.p = inttoptr i64 %best to ptr
  call void @llvm.memmove.p0.p0.i64(ptr %target.p, ptr %best.p, i64 %bytes, i1 false)
  store i64 %target, ptr %best.at, align 8
  %dest.end = add i64 %target, %bytes
  br label %floors
done:
  %end7 = add i64 %dest, 7
  %top1 = and i64 %end7, -8
  store i64 %top1, ptr %top.at, align 8
  ret void
}}
"""

_OVERLAP = """define internal i1 @jitad.overlap(i64 %mark, i64 %top, i64 %n, ptr %table) nounwind {{
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %finished = icmp uge i64 %i, %n
  br i1 %finished, label %no, label %one
one:
  %i2 = shl i64 %i, 1
  %at = getelementptr inbounds i64, ptr %table, i64 %i2
  %size.at = getelementptr inbounds i64, ptr %at, i64 1
  %p = load i64, ptr %at, align 8
  %size = load i64, ptr %size.at, align 8
  %p.end = add i64 %p, %size
  %over = sub i64 %p, %mark
  %above = sub i64 %top, %mark
  %fresh = icmp ult i64 %over, %above
  %i1 = add i64 %i, 1
  br i1 %fresh, label %inner, label %next
inner:
  %j = phi i64 [ %i1, %one ], [ %j1, %two ]
  %compared = icmp uge i64 %j, %n
  br i1 %compared, label %next, label %two
two:
  %j2 = shl i64 %j, 1
  %q.at = getelementptr inbounds i64, ptr %table, i64 %j2
  %q.size.at = getelementptr inbounds i64, ptr %q.at, i64 1
  %q = load i64, ptr %q.at, align 8
  %q.size = load i64, ptr %q.size.at, align 8
  %q.end = add i64 %q, %q.size
  %before = icmp ult i64 %p, %q.end
  %behind = icmp ult i64 %q, %p.end
  %both = and i1 %before, %behind
  %j1 = add i64 %j, 1
  br i1 %both, label %yes, label %inner
next:
  br label %outer
no:
  ret i1 false
yes:
  ret i1 true
}}
"""


ROUTINES = {"jitad.recycle": _RECYCLE, "jitad.keep": _KEEP}


def declare(writer: Writer, name: str) -> str:
    """``@name`` of a routine: ``void (ctx, pointer to the mark, n, table)``."""
    return writer.declare(name, "void", "ptr, ptr, i64, ptr", "nounwind")


def define(writer: Writer) -> None:
    """Write the routines into a module, which then needs no other module."""
    for name, arity in (("umax", 2), ("umin", 2)):
        writer.declare(f"llvm.{name}.i64", "i64", ", ".join(["i64"] * arity))
    for name in ("memcpy", "memmove"):
        writer.declare(f"llvm.{name}.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    at = {name: context.offset(f"arena_{name}") for name in ("top", "high", "end")}
    fields = _FIELDS.format(**at)
    writer.function("jitad.overlap", _OVERLAP.format())
    for name, text in ROUTINES.items():
        writer.function(name, text.format(fields=fields, shift=SHIFT, cached=CACHED))
