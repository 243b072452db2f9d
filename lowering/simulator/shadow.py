"""The runtime in LLVM IR that checks accesses to memory: ``@gpu.access(s, site, address, bytes, kind)``.

*Bounds.*  ``owners`` has the number of an allocation for each ``LINE`` bytes of device memory, 0 for none;
``allocations`` has its offset in the heap, its size, and 1 while it is allocated.  ``arrays`` are the shared arrays of
the block, ``ranges`` other memory that may be used: offsets or addresses, sizes, and 1 for constants.

*Races.*  ``coarse`` has a cell (``races.py``) for each four bytes, ``fine`` one for each byte, which accesses use that
are smaller or not aligned.
"""

from __future__ import annotations

from . import fibers, races, state
from .races import BLOCK_MASK, EPOCH_AT, EPOCH_BITS, LAUNCH_AT, LAUNCH_MASK, THREAD_AT
from .state import expanded

LINE_BITS = 8
LINE = 1 << LINE_BITS
ENTRY = 24
"""Bytes of an entry of ``allocations``, ``arrays`` and ``ranges``: start, size, flag."""

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
    return "\n".join([races.text(), expanded(_ACCESS)])
