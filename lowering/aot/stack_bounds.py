"""``void @jitad.bind(ptr ctx, i64 number)``: asks the system for the bounds of a thread's stack.

It writes the lowest address that recursion may use into the context.  Linux has its text in
``memory/context_runtime.py``, which just-in-time code uses too.
"""

from __future__ import annotations

from typing import Any

from ..llvm.emit import Writer, global_name
from ..memory import context_runtime
from .platforms import System

_LINUX = {"pthread_getattr_np": "i32 (i64, ptr)", "pthread_attr_getstack": "i32 (ptr, ptr, ptr)",
          "pthread_attr_destroy": "i32 (ptr)"}
EXTERNAL = {
    "linux": _LINUX, "musl": _LINUX | {"getpid": "i32 ()", "gettid": "i32 ()", "getrlimit": "i32 (i32, ptr)"},
    "macos": {"pthread_get_stackaddr_np": "i64 (i64)", "pthread_get_stacksize_np": "i64 (i64)"}}
"""The functions of the C library that it calls, for each system."""

_BIND_MACOS = """define void @jitad.bind(ptr %ctx, i64 %number) cold nounwind {{
  %thread = call i64 @pthread_self()
  %high = call i64 @pthread_get_stackaddr_np(i64 %thread)
  %size = call i64 @pthread_get_stacksize_np(i64 %thread)
  %used = call i64 @llvm.umin.i64(i64 %size, i64 {most_stack})
  %low = sub i64 %high, %used
  %limit = add i64 %low, {guard}
  %at = getelementptr inbounds i8, ptr %ctx, i64 {stack_limit}
  store i64 %limit, ptr %at, align 8
  ret void
}}
"""

# As ``context_runtime.bind_text``.  Of the main thread musl tells the part of the stack that is mapped so far, but it
# may grow to the resource limit.
_BIND_MUSL = """define void @jitad.bind(ptr %ctx, i64 %number) cold nounwind {{
entry:
  %attributes = alloca [64 x i8], align 8
  %low.at = alloca i64, align 8
  %size.at = alloca i64, align 8
  %limits = alloca [2 x i64], align 8
  %thread = call i64 @pthread_self()
  %status = call i32 @pthread_getattr_np(i64 %thread, ptr %attributes)
  %known = icmp eq i32 %status, 0
  br i1 %known, label %told, label %guessed
told:
  %found = call i32 @pthread_attr_getstack(ptr %attributes, ptr %low.at, ptr %size.at)
  %gone = call i32 @pthread_attr_destroy(ptr %attributes)
  %lowest = load i64, ptr %low.at, align 8
  %length = load i64, ptr %size.at, align 8
  %end = add i64 %lowest, %length
  %process = call i32 @getpid()
  %me = call i32 @gettid()
  %main = icmp eq i32 %process, %me
  br i1 %main, label %limited, label %done
limited:
  %asked = call i32 @getrlimit(i32 3, ptr %limits)
  %most = load i64, ptr %limits, align 8
  %bound = call i64 @llvm.umin.i64(i64 %most, i64 {most_stack})
  %grown = call i64 @llvm.umax.i64(i64 %bound, i64 %length)
  %bottom = sub i64 %end, %grown
  br label %done
guessed:
  %here = ptrtoint ptr %attributes to i64
  br label %done
done:
  %from = phi i64 [ %lowest, %told ], [ %bottom, %limited ], [ %here, %guessed ]
  %limit = add i64 %from, {guard}
  %field = getelementptr inbounds i8, ptr %ctx, i64 {stack_limit}
  store i64 %limit, ptr %field, align 8
  ret void
}}
"""


def define(writer: Writer, system: System, words: dict[str, Any]) -> None:
    """Write the function into a module; ``words``: offsets and limits by name."""
    texts = {"macos": _BIND_MACOS, "musl": _BIND_MUSL}
    writer.function("jitad.bind", texts[system.name].format(**words) if system.name in texts else
                    context_runtime.bind_text(global_name))
