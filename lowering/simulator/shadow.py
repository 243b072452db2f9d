"""The runtime in LLVM IR that checks accesses to memory: ``@gpu.access(s, site, address, bytes, kind)``.

*Bounds.*  ``owners`` has the number of an allocation for each ``LINE`` bytes of device memory, 0 for none;
``allocations`` has its offset in the heap, its size, and 1 while it is allocated.  ``arrays`` are the shared arrays of
the block, ``ranges`` other memory that may be used: offsets or addresses, sizes, and 1 for constants.

*Races.*  Two accesses of different threads conflict if one of them writes and not both are atomic, unless the threads
are of one block and a barrier stands between.  An access is a word::

    bit 0…25 block   26…35 thread   36 ATOMIC   37 SEVERAL_THREADS   38 SEVERAL_BLOCKS   39…50 epoch   51…62 launch

``coarse`` has a *cell* for each four bytes, ``fine`` one for each byte, which accesses use that are smaller or not
aligned.  A cell holds the last write, or the atomic accesses since then, and the reads since the last write that comes
after all earlier ones.  Several accesses are one word: that of the last, with the flags SEVERAL.  That is exact: blocks
run one after another, and accesses before the last barrier of a block concern other blocks only.  ``…_other`` is an
earlier access of another thread, for the message.  ``tag`` says that the cells for the bytes are in use.

Words of earlier launches count as 0, and in shared memory those of other blocks: the bits of ``%live`` differ.
"""

from __future__ import annotations

from . import fibers, state
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

LINE_BITS = 8
LINE = 1 << LINE_BITS
CELL_BITS = 6
CELL = 1 << CELL_BITS
"""Bytes of a cell: words ``write``, ``read``, ``write_other``, ``read_other``, i32 sites of these four, i64 ``tag``."""
ENTRY = 24
"""Bytes of an entry of ``allocations``, ``arrays`` and ``ranges``: start, size, flag."""

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


def _slot(name: str, word: int, kind: int) -> str:
    """Functions that test and update the writes (``word`` 0) or the reads (1) of a cell."""
    site, other, other_site = 32 + 4 * word, 16 + 8 * word, 40 + 4 * word
    return f"""
define internal void @gpu.test_{name}(ptr %s, ptr %cell, i64 %m, i64 %live, i1 %atomic) nounwind {{
entry:
  %at = getelementptr i8, ptr %cell, i64 {8 * word}
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

define internal void @gpu.note_{name}(ptr %cell, i64 %m, i64 %live, i32 %site) nounwind {{
entry:
  %at = getelementptr i8, ptr %cell, i64 {8 * word}
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

_ACCESS = f"""
define internal i64 @gpu.word(ptr %s) nounwind {{
  %block = get i64 block
  %thread = get i64 thread
  %epoch = get i64 epoch
  %launch = get i64 launch
  %b = and i64 %block, {BLOCK_MASK}
  %t = shl i64 %thread, {THREAD_AT}
  %epoch.low = and i64 %epoch, {(1 << EPOCH_BITS) - 1}
  %e = shl i64 %epoch.low, {EPOCH_AT}
  %l = shl i64 %launch, {LAUNCH_AT}
  %bt = or i64 %b, %t
  %bte = or i64 %bt, %e
  %word = or i64 %bte, %l
  ret i64 %word
}}

define internal ptr @gpu.find(ptr %table, i64 %count, i64 %at, i64 %end) nounwind {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %none
one:
  %offset = mul i64 %i, {ENTRY}
  %entry.at = getelementptr i8, ptr %table, i64 %offset
  %start = load i64, ptr %entry.at, align 8
  %size.at = getelementptr i8, ptr %entry.at, i64 8
  %size = load i64, ptr %size.at, align 8
  %stop = add i64 %start, %size
  %above = icmp uge i64 %at, %start
  %below = icmp ule i64 %end, %stop
  %inside = and i1 %above, %below
  %i.next = add i64 %i, 1
  br i1 %inside, label %found, label %after
after:
  br label %next
found:
  ret ptr %entry.at
none:
  ret ptr null
}}

define void @gpu.access(ptr %s, i32 %site, i64 %address, i64 %bytes, i64 %kind) nounwind {{
entry:
  %empty = icmp eq i64 %bytes, 0
  br i1 %empty, label %done, label %begin
begin:
  %place = zext i32 %site to i64
  put i64 %place, site
  put i64 %kind, kind
  put i64 %address, address
  put i64 %bytes, bytes
  %heap = get i64 heap
  %heap.bytes = get i64 heap_bytes
  %offset = sub i64 %address, %heap
  %device = icmp ult i64 %offset, %heap.bytes
  br i1 %device, label %global, label %local.or.shared
global:
  %owners = get ptr owners
  %line = lshr i64 %offset, {LINE_BITS}
  %owner.at = getelementptr i32, ptr %owners, i64 %line
  %owner = load i32, ptr %owner.at, align 4
  %nobody = icmp eq i32 %owner, 0
  br i1 %nobody, label %wild, label %owned
owned:
  %allocations = get ptr allocations
  %number = zext i32 %owner to i64
  %number.at = mul i64 %number, {ENTRY}
  %allocation = getelementptr i8, ptr %allocations, i64 %number.at
  %start = load i64, ptr %allocation, align 8
  %size.at = getelementptr i8, ptr %allocation, i64 8
  %size = load i64, ptr %size.at, align 8
  %live.at = getelementptr i8, ptr %allocation, i64 16
  %alive = load i64, ptr %live.at, align 8
  %freed = icmp eq i64 %alive, 0
  br i1 %freed, label %use.after.free, label %allocated
allocated:
  %index = sub i64 %offset, %start
  %end = add i64 %index, %bytes
  %outside = icmp ugt i64 %end, %size
  br i1 %outside, label %out.of.bounds, label %inside
inside:
  %m = call i64 @gpu.word(ptr %s)
  %coarse = get ptr coarse
  %fine = get ptr fine
  call void @gpu.mark(ptr %s, i32 %site, i64 %offset, i64 %bytes, i64 %kind, i64 %m, i64 {LAUNCH_MASK},
                      ptr %coarse, ptr %fine)
  ret void
local.or.shared:
  %limit = get i64 stack_limit
  %low = sub i64 %limit, {fibers.MARGIN}
  %depth = sub i64 %address, %low
  %local = icmp ult i64 %depth, {fibers.STACK}
  br i1 %local, label %done, label %shared.or.other
shared.or.other:
  %shared = get i64 shared
  %shared.bytes = get i64 shared_bytes
  %shared.offset = sub i64 %address, %shared
  %is.shared = icmp ult i64 %shared.offset, %shared.bytes
  br i1 %is.shared, label %block, label %other
block:
  %arrays = get ptr arrays
  %array.count = get i64 array_count
  %shared.end = add i64 %shared.offset, %bytes
  %array = call ptr @gpu.find(ptr %arrays, i64 %array.count, i64 %shared.offset, i64 %shared.end)
  %no.array = icmp eq ptr %array, null
  br i1 %no.array, label %out.of.bounds, label %block.inside
block.inside:
  %shared.m = call i64 @gpu.word(ptr %s)
  %shared.coarse = get ptr shared_coarse
  %shared.fine = get ptr shared_fine
  call void @gpu.mark(ptr %s, i32 %site, i64 %shared.offset, i64 %bytes, i64 %kind, i64 %shared.m,
                      i64 {LAUNCH_MASK | BLOCK_MASK}, ptr %shared.coarse, ptr %shared.fine)
  ret void
other:
  %ranges = get ptr ranges
  %range.count = get i64 range_count
  %other.end = add i64 %address, %bytes
  %range = call ptr @gpu.find(ptr %ranges, i64 %range.count, i64 %address, i64 %other.end)
  %no.range = icmp eq ptr %range, null
  br i1 %no.range, label %wild, label %known
known:
  %constant.at = getelementptr i8, ptr %range, i64 16
  %constant = load i64, ptr %constant.at, align 8
  %is.constant = icmp ne i64 %constant, 0
  %changes = icmp ne i64 %kind, {state.READ}
  %wrong = and i1 %is.constant, %changes
  br i1 %wrong, label %written.constant, label %done
wild:
  call void @gpu.stop(ptr %s, i64 {state.WILD})
  unreachable
out.of.bounds:
  call void @gpu.stop(ptr %s, i64 {state.OUT_OF_BOUNDS})
  unreachable
use.after.free:
  call void @gpu.stop(ptr %s, i64 {state.USE_AFTER_FREE})
  unreachable
written.constant:
  call void @gpu.stop(ptr %s, i64 {state.WRITTEN_CONSTANT})
  unreachable
done:
  ret void
}}
"""

ROUTINES = ("gpu.access",)


def text() -> str:
    """The functions as LLVM IR."""
    slots = _slot("write", 0, state.WRITE) + _slot("read", 1, state.READ)
    return "\n".join([_TESTS, *map(expanded, (slots, _CELL, _ACCESS))])
