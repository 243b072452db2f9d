"""Allocates large results in *blocks* that the new ndarray owns, not in the arena.

A copy out of the arena would take as long as many a program, and mapping fresh pages for it longer still.  A block is
memory from the system, in huge pages unless it is smaller than one; then all of its pages are mapped at once.  It
begins with a head of ``HEAD`` bytes: the next block of a list, and its own size.  When the array that owns it dies, the
block goes to the free list.  The list holds ``FREE`` bytes at most, where each block counts as a huge page at least, so
that the list is short.  The system may reclaim the memory of free blocks (except the first huge page, which holds the
head).

The free list is guarded by the GIL.  A call moves the whole list into its context (``blocks_free``), since it runs
without the GIL, moves the blocks that it uses to ``blocks_used``, and returns those that no result owns.  Compiled
code calls ``blocks_take``; if that is null, or returns null, the result is in the arena.
"""

from __future__ import annotations

import ctypes
import mmap

from ..llvm import capi, context
from ..llvm.capi import function, pointer
from ..llvm.context import HUGE_PAGE
from ..llvm.emit import Writer

# Bytes of a result above which it has a block.  Calls with smaller ones would be faster as well, by a quarter, but take
# 1.5 times as long where some hundred results are kept and dropped together (Intel Xeon).
LARGE = 1 << 16
GRAIN = 1 << 14            # granularity of the sizes of blocks smaller than a huge page
FREE = 256 << 20
HEAD = 64

_head = capi.immortal((ctypes.c_size_t * 2)())                          # the first free block, and the bytes of all
_name = capi.immortal(ctypes.create_string_buffer(b"jitad.block"))      # of the capsules
LIST = capi.named("blocks", lambda: ctypes.addressof(_head))
_NAME = capi.named("name of blocks", lambda: ctypes.addressof(_name))

def rest() -> None:
    """Return the memory of the free list to the system.  Used to measure what a call touches."""
    libc, at = ctypes.CDLL(None), _head[0]
    while at:
        following, size = (ctypes.c_size_t * 2).from_address(at)
        libc.madvise(ctypes.c_size_t(at + mmap.PAGESIZE), ctypes.c_size_t(size - mmap.PAGESIZE), mmap.MADV_DONTNEED)
        at = following


# A block with at least %size bytes after its head, or null.  Blocks of which the result would fill less than half are
# left for others: ``jitad.wrap`` would not give them to an array.
_TAKE = """define ptr @jitad.take(ptr %ctx, i64 %size) noinline nounwind {{
entry:
  %free.at = getelementptr inbounds i8, ptr %ctx, i64 {free}
  %used.at = getelementptr inbounds i8, ptr %ctx, i64 {used}
  %many = icmp ugt i64 %size, {most}
  br i1 %many, label %none, label %begin
begin:
  %need = add i64 %size, {head}
  %huge = icmp uge i64 %need, {huge}
  %less = select i1 %huge, i64 {huge_less}, i64 {grain_less}
  %upper = add i64 %need, %less
  %rest = xor i64 %less, -1
  %whole = and i64 %upper, %rest
  br label %look
look:
  %link = phi ptr [ %free.at, %begin ], [ %block, %next ]
  %block = load ptr, ptr %link, align 8
  %end = icmp eq ptr %block, null
  br i1 %end, label %fresh, label %one
one:
  %size.at = getelementptr inbounds i64, ptr %block, i64 1
  %bytes = load i64, ptr %size.at, align 8
  %enough = icmp uge i64 %bytes, %need
  %half = lshr i64 %bytes, 1
  %fair = icmp ule i64 %half, %size
  %fits = and i1 %enough, %fair
  br i1 %fits, label %found, label %next
next:
  br label %look
found:
  %following = load ptr, ptr %block, align 8
  store ptr %following, ptr %link, align 8
  br label %use
fresh:
  %pages = select i1 %huge, i32 {pages}, i32 {present}
  %new = call ptr {mmap}(ptr null, i64 %whole, i32 3, i32 %pages, i32 -1, i64 0)
  %number = ptrtoint ptr %new to i64
  %failed = icmp eq i64 %number, {no_pages}
  br i1 %failed, label %none, label %mapped
mapped:
  br i1 %huge, label %large, label %small
large:
  %status = call i32 {madvise}(ptr %new, i64 %whole, i32 {huge_pages})
  br label %small
small:
  %new.size.at = getelementptr inbounds i64, ptr %new, i64 1
  store i64 %whole, ptr %new.size.at, align 8
  br label %use
use:
  %taken = phi ptr [ %block, %found ], [ %new, %small ]
  %before = load ptr, ptr %used.at, align 8
  store ptr %before, ptr %taken, align 8
  store ptr %taken, ptr %used.at, align 8
  %data = getelementptr inbounds i8, ptr %taken, i64 {head}
  ret ptr %data
none:
  ret ptr null
}}
"""

# Adds an unused block to the free list.  If that is full, others are returned to the system, as the next result is
# most likely as large as this one.
_FREE = """define internal void @jitad.free(ptr %block, i1 %touched) nounwind {{
entry:
  %size.at = getelementptr inbounds i64, ptr %block, i64 1
  %bytes = load i64, ptr %size.at, align 8
  %total.at = getelementptr inbounds i64, ptr {list}, i64 1
  %counted = call i64 @llvm.umax.i64(i64 %bytes, i64 {huge})
  br label %check
check:
  %total = load i64, ptr %total.at, align 8
  %first = load ptr, ptr {list}, align 8
  %sum = add i64 %total, %counted
  %many = icmp ugt i64 %sum, {most_free}
  br i1 %many, label %full, label %keep
full:
  %empty = icmp eq ptr %first, null
  br i1 %empty, label %unmap, label %drop
drop:
  %second = load ptr, ptr %first, align 8
  %first.size.at = getelementptr inbounds i64, ptr %first, i64 1
  %first.bytes = load i64, ptr %first.size.at, align 8
  %first.counted = call i64 @llvm.umax.i64(i64 %first.bytes, i64 {huge})
  %less = sub i64 %total, %first.counted
  store i64 %less, ptr %total.at, align 8
  store ptr %second, ptr {list}, align 8
  %dropped = call i32 {munmap}(ptr %first, i64 %first.bytes)
  br label %check
unmap:
  %gone = call i32 {munmap}(ptr %block, i64 %bytes)
  ret void
keep:
  store i64 %sum, ptr %total.at, align 8
  store ptr %first, ptr %block, align 8
  store ptr %block, ptr {list}, align 8
  %more = icmp ugt i64 %bytes, {huge}
  %lent = and i1 %touched, %more
  br i1 %lent, label %lend, label %done
lend:
  %rest = getelementptr inbounds i8, ptr %block, i64 {huge}
  %length = sub i64 %bytes, {huge}
  %status = call i32 {madvise}(ptr %rest, i64 %length, i32 {lazily})
  br label %done
done:
  ret void
}}
define internal void @jitad.owner.dies(ptr %capsule) nounwind {{
  %block = call ptr {PyCapsule_GetPointer}(ptr %capsule, ptr {name})
  call void @jitad.free(ptr %block, i1 true)
  ret void
}}
"""

# Returns the blocks that no result of a call owns.
_RETURN = """define void @jitad.return(ptr %ctx) noinline nounwind {{
entry:
  %free.at = getelementptr inbounds i8, ptr %ctx, i64 {free}
  %used.at = getelementptr inbounds i8, ptr %ctx, i64 {used}
  %unused = load ptr, ptr %free.at, align 8
  %used = load ptr, ptr %used.at, align 8
  store ptr null, ptr %free.at, align 8
  store ptr null, ptr %used.at, align 8
  br label %first
first:
  %a = phi ptr [ %unused, %entry ], [ %a.next, %first.one ]
  %first.end = icmp eq ptr %a, null
  br i1 %first.end, label %second, label %first.one
first.one:
  %a.next = load ptr, ptr %a, align 8
  call void @jitad.free(ptr %a, i1 false)
  br label %first
second:
  %b = phi ptr [ %used, %first ], [ %b.next, %second.one ]
  %second.end = icmp eq ptr %b, null
  br i1 %second.end, label %done, label %second.one
second.one:
  %b.next = load ptr, ptr %b, align 8
  call void @jitad.free(ptr %b, i1 true)
  br label %second
done:
  ret void
}}
"""

# A new ndarray that owns the block at %data, or null if %data does not start a block that it fills by half at least.
_WRAP = """define ptr @jitad.wrap(ptr %ctx, ptr %data, i64 %size, i32 %rank, ptr %dims, i32 %type) noinline nounwind {{
entry:
  %used.at = getelementptr inbounds i8, ptr %ctx, i64 {used}
  %wanted = getelementptr inbounds i8, ptr %data, i64 -{head}
  br label %look
look:
  %link = phi ptr [ %used.at, %entry ], [ %block, %next ]
  %block = load ptr, ptr %link, align 8
  %end = icmp eq ptr %block, null
  br i1 %end, label %none, label %one
one:
  %same = icmp eq ptr %block, %wanted
  br i1 %same, label %found, label %next
next:
  br label %look
found:
  %size.at = getelementptr inbounds i64, ptr %block, i64 1
  %bytes = load i64, ptr %size.at, align 8
  %half = lshr i64 %bytes, 1
  %little = icmp ult i64 %size, %half
  br i1 %little, label %none, label %own
own:
  %capsule = call ptr {PyCapsule_New}(ptr %block, ptr {name}, ptr @jitad.owner.dies)
  %lack = icmp eq ptr %capsule, null
  br i1 %lack, label %give.up, label %unlink
unlink:
  %following = load ptr, ptr %block, align 8
  store ptr %following, ptr %link, align 8
  %array = call ptr {PyArray_New}(ptr {ndarray}, i32 %rank, ptr %dims, i32 %type, ptr null, ptr %data, i32 0,
                                  i32 {flags}, ptr null)
  %made = icmp ne ptr %array, null
  br i1 %made, label %bind, label %lost
bind:
  %status = call i32 {PyArray_SetBaseObject}(ptr %array, ptr %capsule)
  ret ptr %array
lost:
  store ptr null, ptr %block, align 8
  call void {Py_DecRef}(ptr %capsule)
  br label %give.up
give.up:
  call void {PyErr_Clear}()
  br label %none
none:
  ret ptr null
}}
"""

ROUTINES = {"jitad.take": ("ptr", "ptr, i64"), "jitad.return": ("void", "ptr"),
            "jitad.wrap": ("ptr", "ptr, ptr, i64, i32, ptr, i32")}


def declare(writer: Writer, name: str) -> str:
    """``@name`` of one of ``ROUTINES``."""
    result, params = ROUTINES[name]
    return writer.declare(name, result, params, "nounwind")


def available() -> bool:
    """True if the system has huge pages on request and reclaims pages lazily (Linux)."""
    return hasattr(mmap, "MADV_HUGEPAGE") and hasattr(mmap, "MADV_FREE")


def define(writer: Writer) -> None:
    """Write the routines into a module."""
    names = ("mmap", "munmap", "madvise", "PyCapsule_New", "PyCapsule_GetPointer", "PyArray_New",
             "PyArray_SetBaseObject", "PyErr_Clear", "Py_DecRef")
    here = {name: function(name) for name in names} | {
        "free": context.offset("blocks_free"), "used": context.offset("blocks_used"), "head": HEAD, "huge": HUGE_PAGE,
        "huge_less": HUGE_PAGE - 1, "grain_less": GRAIN - 1, "most": 1 << 47, "most_free": FREE, "list": LIST,
        "no_pages": -1, "huge_pages": mmap.MADV_HUGEPAGE, "lazily": mmap.MADV_FREE,
        "name": _NAME, "ndarray": pointer(capi.NDARRAY),
        "pages": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
        "present": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE,
        "flags": capi.ARRAY_NEEDED_FLAGS | capi.ARRAY_WRITEABLE}
    for text in (_TAKE, _FREE, _RETURN, _WRAP):
        name = text[text.index("@") + 1:text.index("(")]
        writer.function(name, text.format(**here))
    writer.outside(capi.symbols("".join(map(str, here.values()))))
