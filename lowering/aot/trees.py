"""Tests of a packed tree that a C program passes: each reference and each span is inside its column.

Compiled code reads the columns of a tree without tests, as ``jitad.pack`` has made them.  Cycles are allowed: recursion
along one ends with the error code for recursion.

::

    i1 @jitad.references(column, n, rows, bits, least)      rows[class]: the rows of a class, 0 if it is not possible
    i1 @jitad.spans(start, length, n, pool, size, rows, bits, least)
    i1 @jitad.blocks(start, n, pool size, sizes, rank)      sizes: pointers to the columns of the sizes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..llvm.code import Assembly
from ..llvm.emit import Writer
from .interface import Links, Struct


def _for_all(signature: str, body: str) -> str:
    """A function that is true if ``body`` ends in ``%good`` for each i below n; it ends in ``%bad`` otherwise."""
    return f"""define internal i1 {signature} nounwind {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %look, label %fine
look:
{body.strip(chr(10))}
good:
  %next = add i64 %i, 1
  br label %head
fine:
  ret i1 true
bad:
  ret i1 false
}}
"""


_REFERENCES = _for_all("@jitad.references(ptr %column, i64 %n, ptr %rows, i64 %bits, i64 %least)", """
  %at = getelementptr inbounds i64, ptr %column, i64 %i
  %r = load i64, ptr %at, align 8
  %none = icmp slt i64 %r, 0
  br i1 %none, label %absent, label %present
absent:
  %may = icmp sge i64 %r, %least
  br i1 %may, label %good, label %bad
present:
  %one = shl i64 1, %bits
  %mask = sub i64 %one, 1
  %class = and i64 %r, %mask
  %row = lshr i64 %r, %bits
  %rows.at = getelementptr inbounds i64, ptr %rows, i64 %class
  %count = load i64, ptr %rows.at, align 8
  %inside = icmp ult i64 %row, %count
  br i1 %inside, label %good, label %bad
""")

_SPANS = _for_all("""@jitad.spans(ptr %starts, ptr %lengths, i64 %n, ptr %pool, i64 %size, ptr %rows, i64 %bits,
    i64 %least)""", """
  %start.at = getelementptr inbounds i64, ptr %starts, i64 %i
  %length.at = getelementptr inbounds i64, ptr %lengths, i64 %i
  %start = load i64, ptr %start.at, align 8
  %length = load i64, ptr %length.at, align 8
  %begins = icmp ule i64 %start, %size
  %left = sub i64 %size, %start
  %ends = icmp ule i64 %length, %left
  %inside = and i1 %begins, %ends
  br i1 %inside, label %deeper, label %bad
deeper:
  %first = getelementptr inbounds i64, ptr %pool, i64 %start
  %all = call i1 @jitad.references(ptr %first, i64 %length, ptr %rows, i64 %bits, i64 %least)
  br i1 %all, label %good, label %bad
""")

_BLOCKS = _for_all("@jitad.blocks(ptr %starts, i64 %n, i64 %size, ptr %columns, i64 %rank)", """
  %k = phi i64 [ 0, %head ], [ %k.next, %multiply ]
  %count = phi i64 [ 1, %head ], [ %product, %multiply ]
  %axes = icmp slt i64 %k, %rank
  br i1 %axes, label %axis, label %place
axis:
  %column.at = getelementptr inbounds ptr, ptr %columns, i64 %k
  %column = load ptr, ptr %column.at, align 8
  %axis.at = getelementptr inbounds i64, ptr %column, i64 %i
  %axis.size = load i64, ptr %axis.at, align 8
  %negative = icmp slt i64 %axis.size, 0
  br i1 %negative, label %bad, label %multiply
multiply:
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %axis.size)
  %product = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  %k.next = add i64 %k, 1
  br i1 %over, label %bad, label %look
place:
  %start.at = getelementptr inbounds i64, ptr %starts, i64 %i
  %start = load i64, ptr %start.at, align 8
  %begins = icmp ule i64 %start, %size
  %left = sub i64 %size, %start
  %ends = icmp ule i64 %count, %left
  %inside = and i1 %begins, %ends
  br i1 %inside, label %good, label %bad
""")

_ROUTINES = {
    "jitad.references": ("ptr, i64, ptr, i64, i64", _REFERENCES),
    "jitad.spans": ("ptr, ptr, i64, ptr, i64, ptr, i64, i64", _SPANS),
    "jitad.blocks": ("ptr, i64, i64, ptr, i64", _BLOCKS)}

_ANY = "-1"                 # the largest number: nothing is read for a node of a class without fields


def test(writer: Writer, code: Assembly, tree: Struct, links: Links, given: Mapping[str, Sequence[str]]) -> str:
    """Emit a test of one column; ``given``: the pointer and the sizes of each member.  Returns an i1."""
    column, *size = given[links.column]
    if links.sizes:
        starts, n = given[links.start]
        where = code.alloca("ptr", len(links.sizes), 8)
        for k, name in enumerate(links.sizes):
            _store(code, "ptr", given[name][0], where, k)
        writer.declare("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64, i64")
        return _call(writer, code, "jitad.blocks", starts, n, size[0], where, str(len(links.sizes)))
    rows = code.alloca("i64", 1 << tree.bits, 8)
    known = dict(links.classes)
    for number in range(1 << tree.bits):
        count = "0" if number not in known else given[known[number]][1] if known[number] else _ANY
        _store(code, "i64", count, rows, number)
    bits, least = str(tree.bits), "-1" if links.null else "0"
    if not size:                                                    # a single reference
        cell = code.alloca("i64", 1, 8)
        _store(code, "i64", column, cell, 0)
        return _call(writer, code, "jitad.references", cell, "1", rows, bits, least)
    if links.spans is None:
        return _call(writer, code, "jitad.references", column, size[0], rows, bits, least)
    if given[links.spans[0]][1:]:
        (starts, n), (lengths, _) = (given[name] for name in links.spans)
    else:                                                           # the span of a list at the top
        starts, lengths = (code.alloca("i64", 1, 8) for _ in links.spans)
        n = "1"
        for cell, name in zip((starts, lengths), links.spans):
            _store(code, "i64", given[name][0], cell, 0)
    _define(writer, "jitad.references")
    return _call(writer, code, "jitad.spans", starts, lengths, n, column, size[0], rows, bits, least)


def _store(code: Assembly, kind: str, value: str, where: str, k: int) -> None:
    at = code.op(f"getelementptr inbounds {kind}, ptr {where}, i64 {k}", "cell")
    code.do(f"store {kind} {value}, ptr {at}, align 8")


def _define(writer: Writer, name: str) -> None:
    if not writer.defines(name):
        writer.function(name, _ROUTINES[name][1])


def _call(writer: Writer, code: Assembly, name: str, *values: str) -> str:
    _define(writer, name)
    kinds = _ROUTINES[name][0].split(", ")
    return code.op(f"call i1 @{name}({', '.join(f'{k} {v}' for k, v in zip(kinds, values))})", "valid")
