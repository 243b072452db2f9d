"""Loops that test many guards of one kind; a table in memory holds what they compare.

Straight code would be a little faster to run, and far slower to compile: a program that calls thirty functions has some
two hundred such comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..llvm.capi import pointer
from ..llvm.code import Assembly
from .hints import Hints
from .unbox import Unboxer

FEW = 6
"""Up to this many comparisons are straight code: a loop is three blocks, which take LLVM about as long to compile."""


def words_hold(u: Unboxer, hints: Hints, expected: Sequence[tuple[tuple[Any, int], tuple[Any, int]]]) -> None:
    """Require that words are as expected: each word is in an object, and the address of another one or null."""
    if len(expected) <= FEW:
        u.require_all(*(f"eq ptr {u.load('ptr', pointer(obj), offset)}, "
                        f"{pointer(value) if value is not None else 'null'}" for (obj, offset), (value, _) in expected))
        return
    table = hints.constants([x for row in expected for x in row])

    def difference(code: Assembly, number: str, row: str) -> str:
        address = code.op(f"load ptr, ptr {row}, align 8")
        there = code.op(f"load i64, ptr {address}, align 8")
        return code.op(f"xor i64 {there}, {u.load('i64', row, 8)}")
    all_zero(u, table, 16, len(expected), difference)


def entries_hold(u: Unboxer, keys: str, table: str, count: int) -> None:
    """Require that entries of a dict have these keys and values.

    ``keys``: its table of keys; each row of ``table`` is the offset of an entry there, its key and its value.
    """
    def difference(code: Assembly, number: str, row: str) -> str:
        offset = code.op(f"load i64, ptr {row}, align 8")
        entry = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {offset}", "entry")
        key = code.op(f"xor i64 {u.load('i64', entry, 0)}, {u.load('i64', row, 8)}")
        value = code.op(f"xor i64 {u.load('i64', entry, 8)}, {u.load('i64', row, 16)}")
        return code.op(f"or i64 {key}, {value}")
    all_zero(u, table, 24, count, difference)


def all_zero(u: Unboxer, table: str, step: int, count: int, of: Callable[[Assembly, str, str], str]) -> None:
    """Require that ``of(code, number, row)`` is zero for each row of a table."""
    code = u.code
    before, loop, done = code.here, code.label("guards"), code.label("held")
    number, found = code.phi("i64", loop, "row"), code.phi("i64", loop, "difference")
    code.add_incoming(number, "0", before)
    code.add_incoming(found, "0", before)
    code.jump(loop)
    code.start(loop)
    offset = code.op(f"mul nuw nsw i64 {number}, {step}")
    row = code.op(f"getelementptr inbounds i8, ptr {table}, i64 {offset}", "row")
    total = code.op(f"or i64 {found}, {of(code, number, row)}")
    following = code.op(f"add nuw nsw i64 {number}, 1")
    code.add_incoming(number, following)
    code.add_incoming(found, total)
    code.branch(code.op(f"icmp eq i64 {following}, {count}", "c"), done, loop, u.loop_note())
    code.start(done)
    u.require_equal("i64", total, "0")
