"""Data races, in LLVM IR: the cells of the shadow memory, and the test of an access against the earlier ones.

Two accesses of different threads conflict if one of them writes and not both are atomic, unless the threads are of one
block and a barrier stands between.  An access is a word::

    bit 0…25 block   26…35 thread   36 ATOMIC   37 SEVERAL_THREADS   38 SEVERAL_BLOCKS   39…50 epoch   51…62 launch

A cell holds the last write, or the atomic accesses since then, and the reads since the last write that comes after all
earlier ones.  Several accesses are one word: that of the last, with the flags SEVERAL.  That is exact: blocks run one
after another, and accesses before the last barrier of a block concern other blocks only.  ``…_other`` is an earlier
access of another thread, for the message.  ``tag`` says that the cells for the bytes are in use.

Words of earlier launches count as 0, and in shared memory those of other blocks: the bits of ``%live`` differ.

::

    void @gpu.mark(s, site, offset, bytes, kind, word, live, coarse, fine)     tests and notes an access
"""

from __future__ import annotations

from . import state
from .state import expanded

BLOCK_BITS, THREAD_BITS, EPOCH_BITS, LAUNCH_BITS = 26, 10, 12, 12
THREAD_AT = BLOCK_BITS
ATOMIC_FLAG, SEVERAL_THREADS, SEVERAL_BLOCKS = 1 << 36, 1 << 37, 1 << 38
EPOCH_AT = 39
LAUNCH_AT = EPOCH_AT + EPOCH_BITS
BLOCK_MASK = (1 << BLOCK_BITS) - 1
THREAD_MASK = (1 << THREAD_BITS) - 1 << THREAD_AT
EPOCH_MASK = (1 << EPOCH_BITS) - 1 << EPOCH_AT
LAUNCH_MASK = (1 << LAUNCH_BITS) - 1 << LAUNCH_AT
LAUNCHES = 1 << LAUNCH_BITS
"""Number of launches after which the shadow memory is emptied."""

CELL_BITS = 6
CELL = 1 << CELL_BITS
"""Bytes of a cell: words ``write``, ``read``, ``write_other``, ``read_other``, i32 sites of these four, i64 ``tag``."""

_TESTS = f"""
define internal i1 @gpu.concurrent(i64 %w, i64 %m, i64 %live) nounwind alwaysinline {{
  %x = xor i64 %w, %m
  %x.live = and i64 %x, %live
  %current = icmp eq i64 %x.live, 0
  %x.block = and i64 %x, {BLOCK_MASK}
  %elsewhere = icmp ne i64 %x.block, 0
  %blocks = and i64 %w, {SEVERAL_BLOCKS}
  %several.blocks = icmp ne i64 %blocks, 0
  %apart = or i1 %elsewhere, %several.blocks
  %x.epoch = and i64 %x, {EPOCH_MASK}
  %same.epoch = icmp eq i64 %x.epoch, 0
  %x.thread = and i64 %x, {THREAD_MASK}
  %another = icmp ne i64 %x.thread, 0
  %threads = and i64 %w, {SEVERAL_THREADS}
  %several.threads = icmp ne i64 %threads, 0
  %others = or i1 %another, %several.threads
  %beside = and i1 %same.epoch, %others
  %either = or i1 %apart, %beside
  %result = and i1 %current, %either
  ret i1 %result
}}

define internal i64 @gpu.flags(i64 %w, i64 %m, i64 %live) nounwind alwaysinline {{
  %x = xor i64 %w, %m
  %x.live = and i64 %x, %live
  %stale = icmp ne i64 %x.live, 0
  %x.block = and i64 %x, {BLOCK_MASK}
  %elsewhere = icmp ne i64 %x.block, 0
  %had = and i64 %w, {SEVERAL_BLOCKS | SEVERAL_THREADS}
  %blocks = and i64 %w, {SEVERAL_BLOCKS}
  %several = icmp ne i64 %blocks, 0
  %x.epoch = and i64 %x, {EPOCH_MASK}
  %later = icmp ne i64 %x.epoch, 0
  %x.thread = and i64 %x, {THREAD_MASK}
  %another = icmp ne i64 %x.thread, 0
  %more = or i64 %had, {SEVERAL_THREADS}
  %within = select i1 %another, i64 %more, i64 %had
  %block = select i1 %later, i64 0, i64 %within
  %known = select i1 %several, i64 %had, i64 %block
  %any = select i1 %elsewhere, i64 {SEVERAL_BLOCKS | SEVERAL_THREADS}, i64 %known
  %result = select i1 %stale, i64 0, i64 %any
  ret i64 %result
}}
"""


def _slot(word: int) -> tuple[int, int, int, int]:
    """Offsets in a cell of the writes (0) or the reads (1): the word, its site, and the same of another thread."""
    return 8 * word, 32 + 4 * word, 16 + 8 * word, 40 + 4 * word


def _test(name: str, word: int, kind: int) -> str:
    """The function that stops the launch if an access conflicts with the writes or the reads of a cell."""
    at, site, other, other_site = _slot(word)
    return f"""
define internal void @gpu.test_{name}(ptr %s, ptr %cell, i64 %m, i64 %live, i1 %atomic) nounwind {{
entry:
  %at = getelementptr i8, ptr %cell, i64 {at}
  %w = load i64, ptr %at, align 8
  %conflict = call i1 @gpu.concurrent(i64 %w, i64 %m, i64 %live)
  br i1 %conflict, label %which, label %none
none:
  ret void
which:
  %flag = and i64 %w, {ATOMIC_FLAG}
  %is_atomic = icmp ne i64 %flag, 0
  %both = and i1 %is_atomic, %atomic
  br i1 %both, label %none, label %race
race:
  %kind = select i1 %is_atomic, i64 {state.ATOMIC}, i64 {kind}
  %flags = and i64 %w, {~(SEVERAL_BLOCKS | SEVERAL_THREADS) & (1 << 63) - 1}
  %single = call i1 @gpu.concurrent(i64 %flags, i64 %m, i64 %live)
  %other.at = getelementptr i8, ptr %cell, i64 {other}
  %earlier = load i64, ptr %other.at, align 8
  %word = select i1 %single, i64 %w, i64 %earlier
  %site.at = getelementptr i8, ptr %cell, i64 {site}
  %site.last = load i32, ptr %site.at, align 4
  %site.other.at = getelementptr i8, ptr %cell, i64 {other_site}
  %site.other = load i32, ptr %site.other.at, align 4
  %site.short = select i1 %single, i32 %site.last, i32 %site.other
  %site = zext i32 %site.short to i64
  put i64 %m, mine
  put i64 %word, other
  put i64 %site, other_site
  put i64 %kind, other_kind
  call void @gpu.stop(ptr %s, i64 {state.RACE})
  unreachable
}}
"""


def _note(name: str, word: int) -> str:
    """The function that adds an access to the writes or the reads of a cell."""
    at, site, other, other_site = _slot(word)
    return f"""
define internal void @gpu.note_{name}(ptr %cell, i64 %m, i64 %live, i32 %site) nounwind {{
entry:
  %at = getelementptr i8, ptr %cell, i64 {at}
  %w = load i64, ptr %at, align 8
  %flags = call i64 @gpu.flags(i64 %w, i64 %m, i64 %live)
  %new = or i64 %m, %flags
  store i64 %new, ptr %at, align 8
  %site.at = getelementptr i8, ptr %cell, i64 {site}
  %site.last = load i32, ptr %site.at, align 4
  store i32 %site, ptr %site.at, align 4
  %has = icmp ne i64 %flags, 0
  br i1 %has, label %several, label %done
several:
  %x = xor i64 %w, %m
  %block = and i64 %x, {BLOCK_MASK}
  %elsewhere = icmp ne i64 %block, 0
  %blocks = and i64 %w, {SEVERAL_BLOCKS}
  %single = icmp eq i64 %blocks, 0
  %thread = and i64 %x, {THREAD_MASK}
  %another = icmp ne i64 %thread, 0
  %beside = and i1 %single, %another
  %remember = or i1 %elsewhere, %beside
  br i1 %remember, label %store, label %done
store:
  %other.at = getelementptr i8, ptr %cell, i64 {other}
  store i64 %w, ptr %other.at, align 8
  %site.other.at = getelementptr i8, ptr %cell, i64 {other_site}
  store i32 %site.last, ptr %site.other.at, align 4
  br label %done
done:
  ret void
}}
"""


# Another write comes after all accesses to the cell, or the test would have stopped the launch.  So do atomic accesses
# after a write; but one of the thread that wrote, without a barrier in between, leaves the write where it is.
_CELL = f"""
define internal void @gpu.test(ptr %s, ptr %cell, i64 %m, i64 %live, i64 %kind) nounwind {{
entry:
  %atomic = icmp eq i64 %kind, {state.ATOMIC}
  call void @gpu.test_write(ptr %s, ptr %cell, i64 %m, i64 %live, i1 %atomic)
  %reads = icmp eq i64 %kind, {state.READ}
  br i1 %reads, label %done, label %writes
writes:
  call void @gpu.test_read(ptr %s, ptr %cell, i64 %m, i64 %live, i1 false)
  br label %done
done:
  ret void
}}

define internal void @gpu.touch(ptr %s, ptr %cell, i64 %m, i64 %live, i64 %kind, i32 %site) nounwind {{
entry:
  call void @gpu.test(ptr %s, ptr %cell, i64 %m, i64 %live, i64 %kind)
  switch i64 %kind, label %read [ i64 {state.WRITE}, label %write i64 {state.ATOMIC}, label %atomic ]
read:
  call void @gpu.note_read(ptr %cell, i64 %m, i64 %live, i32 %site)
  ret void
write:
  store i64 %m, ptr %cell, align 8
  %read.at = getelementptr i8, ptr %cell, i64 8
  store i64 0, ptr %read.at, align 8
  br label %sited
sited:
  %site.at = getelementptr i8, ptr %cell, i64 32
  store i32 %site, ptr %site.at, align 4
  ret void
atomic:
  %flagged = or i64 %m, {ATOMIC_FLAG}
  %w = load i64, ptr %cell, align 8
  %x = xor i64 %w, %m
  %differs = and i64 %x, {LAUNCH_MASK | EPOCH_MASK | THREAD_MASK | BLOCK_MASK | ATOMIC_FLAG}
  %mine = icmp eq i64 %differs, 0
  br i1 %mine, label %done, label %other
other:
  %flag = and i64 %w, {ATOMIC_FLAG}
  %is_atomic = icmp ne i64 %flag, 0
  br i1 %is_atomic, label %join, label %replace
join:
  call void @gpu.note_write(ptr %cell, i64 %flagged, i64 %live, i32 %site)
  ret void
replace:
  store i64 %flagged, ptr %cell, align 8
  br label %sited
done:
  ret void
}}

define internal void @gpu.mark(ptr %s, i32 %site, i64 %offset, i64 %bytes, i64 %kind, i64 %m, i64 %live,
                               ptr %coarse, ptr %fine) nounwind {{
entry:
  %tag.now = and i64 %m, %live
  %end = add i64 %offset, %bytes
  %bits = or i64 %offset, %bytes
  %low = and i64 %bits, 3
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %words, label %bytewise
words:
  %i = phi i64 [ %offset, %entry ], [ %i.next, %word.done ]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %word, label %done
word:
  %cell.at = shl i64 %i, {CELL_BITS - 2}
  %cell = getelementptr i8, ptr %coarse, i64 %cell.at
  call void @gpu.touch(ptr %s, ptr %cell, i64 %m, i64 %live, i64 %kind, i32 %site)
  %i.next = add i64 %i, 4
  %tag.at = getelementptr i8, ptr %cell, i64 48
  %tag = load i64, ptr %tag.at, align 8
  %used = icmp eq i64 %tag, %tag.now
  br i1 %used, label %each, label %word.done
each:
  %j = phi i64 [ %i, %word ], [ %j.next, %each ]
  %j.at = shl i64 %j, {CELL_BITS}
  %small = getelementptr i8, ptr %fine, i64 %j.at
  call void @gpu.touch(ptr %s, ptr %small, i64 %m, i64 %live, i64 %kind, i32 %site)
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %i.next
  br i1 %j.more, label %each, label %word.done
word.done:
  br label %words
bytewise:
  %k = phi i64 [ %offset, %entry ], [ %k.next, %byte ]
  %k.more = icmp ult i64 %k, %end
  br i1 %k.more, label %byte, label %done
byte:
  %group = lshr i64 %k, 2
  %group.at = shl i64 %group, {CELL_BITS}
  %whole = getelementptr i8, ptr %coarse, i64 %group.at
  call void @gpu.test(ptr %s, ptr %whole, i64 %m, i64 %live, i64 %kind)
  %whole.tag = getelementptr i8, ptr %whole, i64 48
  store i64 %tag.now, ptr %whole.tag, align 8
  %k.at = shl i64 %k, {CELL_BITS}
  %k.cell = getelementptr i8, ptr %fine, i64 %k.at
  call void @gpu.touch(ptr %s, ptr %k.cell, i64 %m, i64 %live, i64 %kind, i32 %site)
  %k.next = add i64 %k, 1
  br label %bytewise
done:
  ret void
}}
"""


def text() -> str:
    """The functions as LLVM IR."""
    write, read = (_test(name, word, kind) + _note(name, word) for name, word, kind in
                   (("write", 0, state.WRITE), ("read", 1, state.READ)))
    return "\n".join([_TESTS, *map(expanded, (write + read, _CELL))])
