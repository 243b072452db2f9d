"""Compares the lowered MLIR text of programs with the interpreter of the IR."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jitad import pipeline
from jitad.compiler_threads import with_room
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import ExcInfo, Module
from jitad.loop_level.build import to_loops
from jitad.mlir.text import print_mlir
from jitad.reference import program_for
from tests.loop_level.running import outcome, same
from tests.mlir.running import Compiled, Status, compiled


@dataclass
class Case:
    """A function of a module of the optimized IR with arguments, and its text."""

    label: str
    module: Module
    root: str
    given: Sequence[Any]

    def __post_init__(self) -> None:
        self.loops = to_loops(self.module)
        self.text = print_mlir(self.loops)


def case(label: str, fun: Callable[..., Any], *args: Any) -> Case:
    """The case of a Python function, jitted or not."""
    def made() -> Case:
        program, given = program_for(fun, args, {})
        pipeline.run(program.module, [program.root])
        return Case(label, program.module, program.root, given)
    return with_room(made)


def compare(cases: Sequence[Case], rtol: float = 1e-9) -> None:
    """Asserts that machine code from the text gives what the interpreter gives."""
    for c, code in zip(cases, compiled([c.loops for c in cases], [c.text for c in cases])):
        _compare(c, code, rtol)


def _compare(c: Case, code: Compiled, rtol: float) -> None:
    want = outcome(lambda: Interpreter(c.module, in_place=True).run(c.root, copy.deepcopy(c.given)))
    try:
        got: Any = code.run(c.root, c.given)
    except Status as status:
        got = c.module.exceptions[status.args[0] - 1]
    if isinstance(got, ExcInfo) or isinstance(want, Exception):
        agree = _is_raised(got, want)
    else:
        agree = same(got, want, rtol)
    assert agree, f"{c.label}: MLIR gives {got!r}, the IR {want!r}"


def _is_raised(info: Any, e: Any) -> bool:
    """True if an exception is the one that a status names; numbers in its message are not looked at."""
    if not isinstance(info, ExcInfo) or type(e).__name__ != (info.kind or info.cls.__name__):
        return False
    return info.message is None or info.message.partition("{")[0] in str(e)
