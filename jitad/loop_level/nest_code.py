"""Python code for loop nests, which the interpreter runs some ten times as fast as op by op.

A nest of loads, stores and arithmetic on scalars becomes one Python function of the values that it reads from outside.
Numbers are NumPy scalars, so operators have the meaning that ``ir/evaluate/meaning.py`` gives the ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.evaluate.meaning import MEANING, OutOfRange
from ..ir.graph import Op, Value
from ..ir.ops import OPS as IR_OPS
from .types import Vector, type_of

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
              "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass
class NestCode:
    """``run`` takes the values ``free`` and returns the carried values after the loop."""

    free: list[Value]
    run: Callable[..., tuple[Any, ...]]


class _NotSimple(Exception):
    """An op in the nest has no code here."""


def nest_code(op: Op, backwards: bool) -> NestCode | None:
    """The code of a ``for``, or None if something in it is left to the interpreter."""
    writer = _Writer(backwards)
    try:
        results = writer.loop(op, "    ")
    except _NotSimple:
        return None
    head = f"def nest({', '.join(writer.names[v] for v in writer.free)}):"
    text = "\n".join([head, *writer.lines, f"    return ({''.join(f'{r}, ' for r in results)})"])
    exec(compile(text, "<nest>", "exec"), writer.space)
    return NestCode(writer.free, writer.space["nest"])


def _outside(*index: Any) -> None:
    raise OutOfRange(f"index {tuple(map(int, index))} of a buffer")


class _Writer:
    """Writes a function: ``names`` of values, ``free`` ones among them, ``space`` of what its text refers to."""

    def __init__(self, backwards: bool) -> None:
        self.backwards = backwards
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.free: list[Value] = []
        self.counters: set[Value] = set()
        self.space: dict[str, Any] = {"int64": np.int64, "outside": _outside}

    def use(self, v: Value) -> str:
        """The name of a value, which is a parameter of the function if the nest does not define it."""
        if v not in self.names:
            self.free.append(v)
            self.define(v)
        return self.names[v]

    def define(self, v: Value) -> str:
        if isinstance(type_of(v), Vector):
            raise _NotSimple
        name = self.names[v] = f"v{len(self.names)}"
        return name

    def loop(self, op: Op, margin: str) -> list[str]:
        """Write a loop; returns the names of its carried values."""
        (body,), term = op.regions, op.regions[0].term
        assert term is not None
        lower, upper, step, *start = map(self.use, op.operands)
        iv, *carried = map(self.define, body.params)
        if op.operands[0].const is not None and op.operands[0].const >= 0:
            self.counters.add(body.params[0])
        self.lines += [f"{margin}{c} = {s}" for c, s in zip(carried, start)]
        turns = f"range(int({lower}), int({upper}), int({step}))"
        if self.backwards and op.attrs.get("independent"):
            turns = f"reversed({turns})"
        self.lines += [f"{margin}for {iv} in {turns}:", f"{margin}    {iv} = int64({iv})"]
        for inner in body.ops:
            self.op(inner, margin + "    ")
        if carried:
            self.lines.append(f"{margin}    {', '.join(carried)} = {', '.join(map(self.use, term.operands))}")
        for r, c in zip(op.results, carried):
            self.names[r] = c
        return carried

    def op(self, op: Op, margin: str) -> None:
        name = op.name
        if name == "for":
            self.loop(op, margin)
        elif name in ("load", "store") and not op.attrs:
            self.access(op, margin)
        elif name in _OPERATORS or name == "select":
            x = [self.use(v) for v in op.operands]
            text = f"{x[1]} if {x[0]} else {x[2]}" if name == "select" else f"{x[0]} {_OPERATORS[name]} {x[1]}"
            self.lines.append(f"{margin}{self.define(op.result)} = {text}")
        elif name in IR_OPS and (IR_OPS[name].elementwise or name == "const"):
            n = len(self.space)
            self.space |= {f"f{n}": MEANING[name], f"a{n}": op.attrs}
            operands = "".join(f", {self.use(v)}" for v in op.operands)
            self.lines.append(f"{margin}{self.define(op.result)} = f{n}(a{n}{operands})")
        else:
            raise _NotSimple

    def access(self, op: Op, margin: str) -> None:
        """Write a load or a store; NumPy would take a negative index to count from the end."""
        at = op.operands[1:] if op.name == "load" else op.operands[2:]
        b = self.use(op.operands[-len(at) - 1])
        index = ", ".join(map(self.use, at))
        unsure = [self.use(v) for v in at if v not in self.counters and v.const is None]
        if unsure:
            self.lines.append(f"{margin}if {' or '.join(f'{i} < 0' for i in unsure)}: outside({index})")
        if op.name == "load":
            self.lines.append(f"{margin}{self.define(op.result)} = {b}[{index}]")
        else:
            self.lines.append(f"{margin}{b}[{index}] = {self.use(op.operands[0])}")
