"""The runtime of a library: contexts, one for each thread, made when a thread first calls an export.

::

    ptr @jitad.acquire()            the context of this thread, or null if there is no memory for one
    void @jitad.release(ptr ctx)    empties its arena
    ptr @jitad.present()            the context of this thread, or null if it has none
    void @jitad.unload()            runs when the library is unloaded

A context stands at the start of the region that also holds its arena.  The system's thread-specific data holds it, and
unmaps it when the thread ends.  A signal handler may call an export while its thread runs one: the context is then in
use, and the call gets a region of its own.  Only functions of the C library are called, by name.

Systems without threads (``platforms.WASI``) have one region, from ``calloc``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..llvm import context
from ..llvm.emit import Writer, global_name
from ..memory import context_runtime
from . import stack_bounds
from .platforms import System

# Words behind the fields of the context: the bytes of the region; 1 if the context is in use; the code of the last
# failure; 1 if the region is of one call only.  A text for ``jitad_strerror`` follows.
WORDS = {name: context.SIZE + 8 * i for i, name in enumerate(("bytes", "busy", "code", "single"))}
TEXT, TEXT_SIZE = 1024, 2048
HEAD = 1 << 16              # bytes in front of the arena; a multiple of every page size
LARGEST, SMALLEST = 64 << 30, 1 << 20
PAGE = 1 << 16
ONLY = 64 << 20             # bytes of the region on systems without threads
DEEP = 64 << 10             # bytes of the stack for recursion there: engines have a second stack, which is shorter
SMALL_STACK = 8 << 10

ROUTINES = {"jitad.acquire": ("ptr", ""), "jitad.release": ("void", "ptr"), "jitad.present": ("ptr", "")}

_EXTERNAL = {
    "pthread_getspecific": "ptr ({key})", "pthread_setspecific": "i32 ({key}, ptr)",
    "pthread_key_create": "i32 (ptr, ptr)", "pthread_key_delete": "i32 ({key})", "sysconf": "i64 (i32)",
    "mmap": "ptr (ptr, i64, i32, i32, i32, i64)", "munmap": "i32 (ptr, i64)", "madvise": "i32 (i64, i64, i32)",
    "pthread_self": "i64 ()"}

_PRESENT = """define hidden ptr @jitad.present() nounwind {{
entry:
  %number = load atomic i64, ptr @jitad.key monotonic, align 8
  %none = icmp eq i64 %number, 0
  br i1 %none, label %nothing, label %look
look:
  %wide = sub i64 %number, 1
  {narrow}
  %ctx = call ptr @pthread_getspecific({key} %key)
  ret ptr %ctx
nothing:
  ret ptr null
}}
"""

_ACQUIRE = """define hidden ptr @jitad.acquire() nounwind {{
entry:
  %ctx = call ptr @jitad.present()
  %none = icmp eq ptr %ctx, null
  br i1 %none, label %make, label %look
look:
  %busy.at = getelementptr inbounds i8, ptr %ctx, i64 {busy}
  %busy = load volatile i64, ptr %busy.at, align 8
  %used = icmp ne i64 %busy, 0
  br i1 %used, label %nested, label %take
take:
  store volatile i64 1, ptr %busy.at, align 8
  ret ptr %ctx
make:
  %made = call ptr @jitad.first()
  ret ptr %made
nested:
  %second = call ptr @jitad.map()
  %lack = icmp eq ptr %second, null
  br i1 %lack, label %nothing, label %single
single:
  %single.at = getelementptr inbounds i8, ptr %second, i64 {single}
  store i64 1, ptr %single.at, align 8
  %limit.at = getelementptr inbounds i8, ptr %ctx, i64 {stack_limit}
  %limit = load i64, ptr %limit.at, align 8
  %limit2.at = getelementptr inbounds i8, ptr %second, i64 {stack_limit}
  store i64 %limit, ptr %limit2.at, align 8
  ret ptr %second
nothing:
  ret ptr null
}}
"""

# The first call of a thread.  The first of all makes the key; of two threads that make one, one gives it back.
_FIRST = """define internal ptr @jitad.first() noinline cold nounwind {{
entry:
  %new = alloca i64, align 8
  %known = load atomic i64, ptr @jitad.key acquire, align 8
  %some = icmp ne i64 %known, 0
  br i1 %some, label %have, label %create
create:
  store i64 0, ptr %new, align 8
  %status = call i32 @pthread_key_create(ptr %new, ptr @jitad.forget)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %nothing, label %enter
enter:
  %key = load {key}, ptr %new, align 8
  %wide = {widen}
  %number = add i64 %wide, 1
  %pair = cmpxchg ptr @jitad.key, i64 0, i64 %number acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %have, label %lost
lost:
  %deleted = call i32 @pthread_key_delete({key} %key)
  br label %have
have:
  %ctx = call ptr @jitad.map()
  %lack = icmp eq ptr %ctx, null
  br i1 %lack, label %nothing, label %bind
bind:
  call void @jitad.bind(ptr %ctx, i64 0)
  %busy.at = getelementptr inbounds i8, ptr %ctx, i64 {busy}
  store volatile i64 1, ptr %busy.at, align 8
  %final = load atomic i64, ptr @jitad.key acquire, align 8
  %final.wide = sub i64 %final, 1
  {narrow_final}
  %set = call i32 @pthread_setspecific({key} %final.key, ptr %ctx)
  %unset = icmp ne i32 %set, 0
  br i1 %unset, label %drop, label %good
good:
  ret ptr %ctx
drop:
  call void @jitad.forget(ptr %ctx)
  ret ptr null
nothing:
  ret ptr null
}}
"""

# As ``context.bound``: beyond, the system would kill the process rather than refuse memory.
_MAP = """define internal ptr @jitad.map() noinline cold nounwind {{
entry:
  %pages = call i64 @sysconf(i32 {pages})
  %free = call i64 @sysconf(i32 {free})
  %page = call i64 @sysconf(i32 {page_size})
  %eighth = lshr i64 %free, 3
  %most.free = mul i64 %eighth, 7
  %half.pages = lshr i64 %pages, 1
  %used = call i64 @llvm.smax.i64(i64 %most.free, i64 %half.pages)
  %memory = mul i64 %used, %page
  %least = call i64 @llvm.smax.i64(i64 %memory, i64 {smallest})
  %most = call i64 @llvm.smin.i64(i64 %least, i64 {largest})
  %whole = and i64 %most, {mask}
  br label %try
try:
  %size = phi i64 [ %whole, %entry ], [ %half, %again ]
  %p = call ptr @mmap(ptr null, i64 %size, i32 3, i32 {flags}, i32 -1, i64 0)
  %at = ptrtoint ptr %p to i64
  %failed = icmp eq i64 %at, -1
  br i1 %failed, label %less, label %mapped
less:
  %end = icmp ule i64 %size, {smallest}
  br i1 %end, label %nothing, label %again
again:
  %half.odd = lshr i64 %size, 1
  %half = and i64 %half.odd, {mask}
  br label %try
mapped:
{advise}
{fields}
  ret ptr %p
nothing:
  ret ptr null
}}
"""

_RELEASE = """define hidden void @jitad.release(ptr %ctx) nounwind {{
entry:
  %base.at = getelementptr inbounds i8, ptr %ctx, i64 {arena_base}
  %top.at = getelementptr inbounds i8, ptr %ctx, i64 {arena_top}
  %high.at = getelementptr inbounds i8, ptr %ctx, i64 {arena_high}
  %base = load i64, ptr %base.at, align 8
  %top = load i64, ptr %top.at, align 8
  %high = load i64, ptr %high.at, align 8
  %most = call i64 @llvm.umax.i64(i64 %top, i64 %high)
  %used = sub i64 %most, %base
  store i64 %base, ptr %top.at, align 8
  %much = icmp ugt i64 %used, {keep}
  br i1 %much, label %trim, label %done
trim:
  call void @jitad.trim(ptr %ctx, i64 %most)
  br label %done
done:
  %busy.at = getelementptr inbounds i8, ptr %ctx, i64 {busy}
  store volatile i64 0, ptr %busy.at, align 8
  %single.at = getelementptr inbounds i8, ptr %ctx, i64 {single}
  %single = load i64, ptr %single.at, align 8
  %once = icmp ne i64 %single, 0
  br i1 %once, label %drop, label %keep
drop:
  call void @jitad.forget(ptr %ctx)
  ret void
keep:
  ret void
}}
"""

_FORGET = """define internal void @jitad.forget(ptr %ctx) noinline cold nounwind {{
  %bytes.at = getelementptr inbounds i8, ptr %ctx, i64 {bytes}
  %bytes = load i64, ptr %bytes.at, align 8
  %status = call i32 @munmap(ptr %ctx, i64 %bytes)
  ret void
}}
"""

# Threads that still live would run the destructor of a library that is gone.
_UNLOAD = """define internal void @jitad.unload() cold nounwind {{
entry:
  %number = load atomic i64, ptr @jitad.key acquire, align 8
  %none = icmp eq i64 %number, 0
  br i1 %none, label %done, label %delete
delete:
  %own = call ptr @jitad.present()
  %wide = sub i64 %number, 1
  {narrow}
  %status = call i32 @pthread_key_delete({key} %key)
  %some = icmp ne ptr %own, null
  br i1 %some, label %drop, label %done
drop:
  call void @jitad.forget(ptr %own)
  br label %done
done:
  ret void
}}
"""

# Without threads: one region, and no signal handlers.  ``__stack_low`` is defined by the linker.
_ONLY_PRESENT = """define hidden ptr @jitad.present() nounwind {{
  %ctx = load ptr, ptr @jitad.only, align 8
  ret ptr %ctx
}}
"""
_ONLY_ACQUIRE = """define hidden ptr @jitad.acquire() nounwind {{
entry:
  %ctx = load ptr, ptr @jitad.only, align 8
  %none = icmp eq ptr %ctx, null
  br i1 %none, label %make, label %have
have:
  ret ptr %ctx
make:
  %p = call ptr @calloc(i32 1, i32 {only})
  %lack = icmp eq ptr %p, null
  br i1 %lack, label %nothing, label %made
made:
  store ptr %p, ptr @jitad.only, align 8
  %size = add i64 {only}, 0
  %at = ptrtoint ptr %p to i64
{fields}
  %limit.at = getelementptr inbounds i8, ptr %p, i64 {stack_limit}
  %low = ptrtoint ptr @__stack_low to i64
  %least = add i64 %low, {small_stack}
  %mark = alloca i8, align 1
  %here = ptrtoint ptr %mark to i64
  %some = sub i64 %here, {deep}
  %limit = call i64 @llvm.smax.i64(i64 %least, i64 %some)
  store i64 %limit, ptr %limit.at, align 8
  ret ptr %p
nothing:
  ret ptr null
}}
"""
_ONLY_RELEASE = """define hidden void @jitad.release(ptr %ctx) nounwind {{
  %base.at = getelementptr inbounds i8, ptr %ctx, i64 {arena_base}
  %top.at = getelementptr inbounds i8, ptr %ctx, i64 {arena_top}
  %base = load i64, ptr %base.at, align 8
  store i64 %base, ptr %top.at, align 8
  ret void
}}
"""


def define(writer: Writer, system: System) -> None:
    """Write the runtime into a module."""
    for name in ("smax", "smin", "umax", "umin", "usub.sat"):
        writer.declare(f"llvm.{name}.i64", "i64", "i64, i64")
    words = {**WORDS, **{f: context.offset(f) for f in context.FIELDS}, "keep": context.KEEP, "deep": DEEP,
             "small_stack": SMALL_STACK, "largest": LARGEST,
             "smallest": SMALLEST, "mask": -SMALLEST, "only": ONLY,
             "most_stack": context.MOST_STACK, "guard": context.GUARD, "fields": _fields(), "flags": system.flags,
             "pages": system.pages, "free": system.free, "page_size": system.page_size, "key": system.key}
    if not system.threads:
        writer.declare("calloc", "ptr", "i32, i32")
        writer.global_("__stack_low", "external global i8")
        writer.global_("jitad.only", "internal global ptr null, align 8")
        _write(writer, (_ONLY_PRESENT, _ONLY_ACQUIRE, _ONLY_RELEASE), words)
        return
    for name, kind in {**_EXTERNAL, **stack_bounds.EXTERNAL[system.name]}.items():
        result, _, params = kind.format(key=system.key).partition(" ")
        writer.declare(name, result, params[1:-1], "nounwind")
    writer.global_("jitad.key", "internal global i64 0, align 8")
    writer.global_("llvm.global_dtors", "appending global [1 x { i32, ptr, ptr }] "
                                        "[{ i32, ptr, ptr } { i32 65535, ptr @jitad.unload, ptr null }]")
    words |= {"narrow": _narrow(system, "%wide", "%key"), "narrow_final": _narrow(system, "%final.wide", "%final.key"),
              "widen": "zext i32 %key to i64" if system.key == "i32" else "add i64 %key, 0", "advise": _advise(system)}
    _write(writer, (_PRESENT, _ACQUIRE, _FIRST, _MAP, _RELEASE, _FORGET, _UNLOAD), words)
    stack_bounds.define(writer, system, words)
    writer.function("jitad.trim", context_runtime.trim_text(global_name, PAGE, _given_back(system)))


def _write(writer: Writer, texts: Iterable[str], words: dict[str, Any]) -> None:
    for text in texts:
        writer.function(text[text.index("@") + 1:text.index("(")], text.format(**words))


def declare(writer: Writer, name: str) -> str:
    """``@name`` of one of ``ROUTINES``."""
    result, params = ROUTINES[name]
    return writer.declare(name, result, params, "nounwind")


def _fields() -> str:
    """LLVM IR that fills the fields of a context at ``%p``, which is zero, in a region of ``%size`` bytes."""
    lines: list[str] = []

    def put(offset: int, value: str) -> None:
        lines.append(f"  %f{offset} = getelementptr inbounds i8, ptr %p, i64 {offset}")
        lines.append(f"  store i64 {value}, ptr %f{offset}, align 8")
    lines += [f"  %arena = add i64 %at, {HEAD}", "  %arena.last = add i64 %at, %size",
              "  %arena.end = sub i64 %arena.last, 128"]
    for name in ("arena_base", "arena_top", "arena_high"):
        put(context.offset(name), "%arena")
    put(context.offset("arena_end"), "%arena.end")
    put(context.offset("polls"), str(context.POLL_PERIOD))
    put(context.offset("threads"), "1")
    put(WORDS["bytes"], "%size")
    lines.append(f"  %ahead = getelementptr inbounds i8, ptr %p, i64 {HEAD - 1}")       # see ``context.new``
    lines.append("  store i8 0, ptr %ahead, align 1")
    return "\n".join(lines)


def _narrow(system: System, wide: str, name: str) -> str:
    return f"{name} = trunc i64 {wide} to i32" if system.key == "i32" else f"{name} = add i64 {wide}, 0"


def _advise(system: System) -> str:
    huge = system.advice[0]
    if huge is None:
        return ""
    return (f"  %rest = add i64 %at, {context.HUGE_PAGE}\n  %rest.size = call i64 @llvm.usub.sat.i64(i64 %size, "
            f"i64 {context.HUGE_PAGE})\n  %advised = call i32 @madvise(i64 %rest, i64 %rest.size, i32 {huge})")


def _given_back(system: System) -> list[tuple[int, int]]:
    """As ``context.given_back``, for this system."""
    _, lazily, now = system.advice
    first = [] if lazily is None else [(context.KEEP, lazily)]
    return first if now is None else [*first, (context.LEND if first else context.KEEP, now)]


