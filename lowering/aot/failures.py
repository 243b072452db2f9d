"""Error codes of a library: a kind in the low eight bits, and above them the number of a message, or 0.

The messages of all exports are one table.  ``jitad_strerror`` returns a constant text, or, for the last failure of the
calling thread, a text with the operands of the exception, which stands in the thread's context.

::

    i32 @jitad.failed(ptr ctx, i32 number)         records the failure; returns its code
    ptr @jitad_strerror(i32 code)
"""

from __future__ import annotations

import os
import string
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...ir.graph import ExcInfo
from ...ir.types import Scalar, Type
from ..llvm import context
from ..llvm.code import Assembly
from ..llvm.emit import Writer, global_name
from . import runtime

KINDS = ("OK", "NULL_POINTER", "SIZE_MISMATCH", "OUT_OF_MEMORY", "RECURSION", "INDEX", "ZERO_DIVISION", "VALUE",
         "ASSERTION", "RAISED")
TEXTS = ("no error", "a pointer is null", "sizes of arrays do not agree", "out of memory", "recursion too deep",
         "an index is out of bounds", "division of an integer by zero", "an invalid value", "an assertion failed",
         "an exception was raised")
_OF_PYTHON = {"MemoryError": "OUT_OF_MEMORY", "RecursionError": "RECURSION", "IndexError": "INDEX",
              "ZeroDivisionError": "ZERO_DIVISION", "ValueError": "VALUE", "AssertionError": "ASSERTION"}
_MOST_TEXT = 400            # characters of a message
_FORMATS = {True: "%.17g", False: "%lld"}


@dataclass(frozen=True)
class Message:
    """``text`` is a format of ``printf`` with operands of the types ``operands``; ``plain`` has "?" in their place."""

    kind: str
    text: str
    plain: str
    operands: tuple[tuple[int, Scalar], ...] = ()


@dataclass
class Messages:
    """The messages of a library; the first has number 1."""

    all: list[Message] = field(default_factory=list)

    def add(self, message: Message) -> int:
        """Enter a message; returns its number."""
        self.all.append(message)
        return len(self.all)

    def constant(self, kind: str, text: str) -> int:
        """Enter a message without operands."""
        return self.add(Message(kind, text, text))

    def program(self, export: str, exceptions: Iterable[ExcInfo], operands: dict[int, list[Type]]) -> int:
        """Enter the exceptions of a program, in order; returns the number of messages before them.

        A compiled function returns the status n + 1 for the exception n.
        """
        base = len(self.all)
        for n, info in enumerate(exceptions):
            self.add(_message(export, info, [t for t in operands.get(n, []) if isinstance(t, Scalar)]))
        return base


def kind_number(kind: str) -> int:
    return KINDS.index(kind)


def kind_of(info: ExcInfo) -> str:
    """The kind of error for an exception: one of ``KINDS``."""
    return "RAISED" if info.cls is not None else _OF_PYTHON.get(info.kind, "RAISED")


def _message(export: str, info: ExcInfo, operands: list[Scalar]) -> Message:
    name = info.kind or getattr(info.cls, "__name__", "Exception")
    given = "" if info.message is None else info.message
    if info.message is None and info.args is not None:
        given = ", ".join(str(a) for a in info.args if isinstance(a, (str, int, float)))
        operands = []
    parts = list(string.Formatter().parse(given)) if operands or info.message is not None else [(given, None, "", None)]
    text = plain = ""
    used: list[tuple[int, Scalar]] = []
    for i, (literal, name_of, _, _) in enumerate(parts):
        text, plain = text + literal.replace("%", "%%"), plain + literal
        if name_of is not None:
            number = int(name_of) if name_of.isdigit() else i
            known = number < len(operands) and number not in info.texts
            text += _FORMATS[operands[number].is_float] if known else "?"
            plain += "?"
            used += [(number, operands[number])] if known else []
    place = f" ({os.path.basename(info.loc.file)}:{info.loc.line})" if info.loc.line else ""
    head = f"{export}: {name}" + (": " if given else "")
    text, plain = _short(_escaped(head) + text) + _escaped(place), _short(head + plain) + place
    return Message(kind_of(info), text, plain, tuple(used))


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT].rstrip("%") + "..."


# --- code -----------------------------------------------------------------------------------------

def declare(writer: Writer) -> str:
    """``@name`` of ``i32 (ctx, number)``, which records a failure and returns its code."""
    return writer.declare("jitad.failed", "i32", "ptr, i32", "cold nounwind")


def define(writer: Writer, messages: Messages, names: Iterable[str], size: str) -> None:
    """Write the table, and ``jitad_strerror`` under these names; ``size``: the type of ``size_t``."""
    kinds = [0, *(kind_number(m.kind) for m in messages.all)]
    writer.global_("jitad.kinds", f"internal constant [{len(kinds)} x i8] [{', '.join(f'i8 {k}' for k in kinds)}]")
    for name, texts in (("general", TEXTS), ("messages", ["", *(m.plain for m in messages.all)])):
        pointers = ", ".join(f"ptr {_text(writer, f'jitad.{name}.{i}', text)}" for i, text in enumerate(texts))
        writer.global_(f"jitad.{name}", f"internal constant [{len(texts)} x ptr] [{pointers}]")
    at = runtime.WORDS["code"]
    writer.function("jitad.failed", _FAILED.format(code=at))
    _strerror(writer, messages, size)
    for name in names:
        linkage = "weak " if name == "jitad_strerror" else ""
        writer.function(name, f"define {linkage}ptr {global_name(name)}(i32 %code) nounwind {{\n"
                              f"  %text = call ptr @jitad.text(i32 %code)\n  ret ptr %text\n}}\n")


_FAILED = """define hidden i32 @jitad.failed(ptr %ctx, i32 %number) cold nounwind {{
  %wide = zext i32 %number to i64
  %at = getelementptr inbounds i8, ptr @jitad.kinds, i64 %wide
  %kind = load i8, ptr %at, align 1
  %low = zext i8 %kind to i32
  %high = shl i32 %number, 8
  %code = or i32 %high, %low
  %code.wide = zext i32 %code to i64
  %field = getelementptr inbounds i8, ptr %ctx, i64 {code}
  store i64 %code.wide, ptr %field, align 8
  ret i32 %code
}}
"""


def _text(writer: Writer, name: str, text: str) -> str:
    """``@name`` of a constant string; what is not ASCII is in UTF-8."""
    data = text.encode(errors="replace") + b"\0"
    chars = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return writer.global_(name, f'private unnamed_addr constant [{len(data)} x i8] c"{chars}"')


def _strerror(writer: Writer, messages: Messages, size: str) -> None:
    code = Assembly()
    general, numbered, unknown = code.label("general"), code.label("numbered"), code.label("unknown")
    kind, number = code.op("and i32 %code, 255"), code.op("lshr i32 %code, 8")
    code.branch(code.op(f"icmp eq i32 {number}, 0"), general, numbered)
    code.start(general)
    _constant(code, "general", kind, len(TEXTS), unknown)
    code.start(numbered)
    told, plain = code.label("told"), code.label("plain")
    known = code.op(f"icmp ule i32 {number}, {len(messages.all)}")
    code.branch(known, told, unknown)
    code.start(told)
    _with_operands(writer, code, messages, number, plain, size)
    code.start(plain)
    _constant(code, "messages", number, len(messages.all) + 1, unknown)
    code.start(unknown)
    code.end(f"ret ptr {_text(writer, 'jitad.unknown', 'unknown error code')}")
    writer.function("jitad.text", f"define internal ptr @jitad.text(i32 %code) nounwind {{\n{code.text()}\n}}\n")


def _constant(code: Assembly, table: str, index: str, count: int, unknown: str) -> None:
    good = code.label("good")
    code.branch(code.op(f"icmp ult i32 {index}, {count}"), good, unknown)
    code.start(good)
    at = code.op(f"getelementptr inbounds ptr, ptr @jitad.{table}, i32 {index}")
    code.end(f"ret ptr {code.op(f'load ptr, ptr {at}')}")


def _with_operands(writer: Writer, code: Assembly, messages: Messages, number: str, plain: str, size: str) -> None:
    """Emit: format the last failure of this thread, if that is what the code says; otherwise go to ``plain``."""
    dynamic = [(n, m) for n, m in enumerate(messages.all, 1) if m.operands]
    if not dynamic:
        code.jump(plain)
        return
    have, mine = code.label("have"), code.label("mine")
    ctx = code.op(f"call ptr {runtime.declare(writer, 'jitad.present')}()")
    code.branch(code.op(f"icmp ne ptr {ctx}, null"), have, plain)
    code.start(have)
    field = code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {runtime.WORDS['code']}")
    wide = code.op("zext i32 %code to i64")
    code.branch(code.op(f"icmp eq i64 {code.op(f'load i64, ptr {field}, align 8')}, {wide}"), mine, plain)
    code.start(mine)
    to = code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {runtime.TEXT}")
    labels = {n: code.label("message") for n, _ in dynamic}
    cases = " ".join(f"i32 {n}, label %{label}" for n, label in labels.items())
    code.end(f"switch i32 {number}, label %{plain} [ {cases} ]")
    writer.declare("snprintf", "i32", f"ptr, {size}, ptr, ...", "nounwind")
    for n, message in dynamic:
        code.start(labels[n])
        values = [_operand(code, ctx, k, t) for k, t in message.operands]
        fmt = _text(writer, f"jitad.format.{n}", message.text)
        args = ", ".join([f"ptr {to}", f"{size} {runtime.TEXT_SIZE}", f"ptr {fmt}", *values])
        code.op(f"call i32 (ptr, {size}, ptr, ...) @snprintf({args})")
        code.end(f"ret ptr {to}")


def _operand(code: Assembly, ctx: str, number: int, t: Scalar) -> str:
    at = code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {context.offset(f'operand{number}')}")
    kind = "double" if t.is_float else "i64"
    return f"{kind} {code.op(f'load {kind}, ptr {at}, align 8')}"
