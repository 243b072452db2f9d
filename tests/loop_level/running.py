"""Runs Python functions and modules of the IR at the loop level, and compares it with the IR that it is made from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitad import pipeline
from jitad.compiler_threads import with_room
from jitad.evaluation import as_returned
from jitad.frontend.columns.pack import returned
from jitad.ir.evaluate.interp import Frames, Interpreter
from jitad.ir.graph import Module
from jitad.loop_level.build import to_loops
from jitad.loop_level.interp import LoopInterpreter
from jitad.loop_level.text import parse_module, print_module
from jitad.loop_level.verify import verify
from jitad.reference import program_for


def checked(module: Module, device: bool = False) -> Module:
    """The verified loop level of a module; its text parses to the same."""
    loops = to_loops(module, device=device)
    verify(loops)
    text = print_module(loops)
    assert print_module(parse_module(text)) == text
    return loops


def looped(fun: Callable[..., Any], *args: Any, backwards: bool = False) -> Any:
    """The result of a function, jitted or not, by the interpreter of the loop level."""
    def run() -> Any:
        program, given = program_for(fun, args, {})
        pipeline.run(program.module, [program.root])
        results = LoopInterpreter(checked(program.module), backwards).run(program.root, given)
        return returned(as_returned(program, results), (args, {}))
    return with_room(run)


def agree(fun: Callable[..., Any], *args: Any, rtol: float = 1e-9) -> None:
    """Asserts that a function means the same at the loop level as in the IR, independent loops in both directions."""
    program, given = with_room(lambda: program_for(fun, args, {}))
    with_room(lambda: pipeline.run(program.module, [program.root]))
    same_module(program.module, program.root, given, rtol)


def same_module(module: Module, root: str, given: Sequence[Any], rtol: float = 1e-9) -> None:
    """Asserts that a function of optimised IR means the same at the loop level, in both forms of its nests."""
    want = outcome(lambda: Interpreter(module, in_place=True).run(root, copy.deepcopy(given)))
    loops, kernels = checked(module), checked(module, device=True)
    for way in (LoopInterpreter(loops), LoopInterpreter(loops, backwards=True), LoopInterpreter(kernels)):
        got = outcome(partial(way.run, root, copy.deepcopy(given)))
        assert same(got, want, rtol), f"the loop level gives {got!r}, the IR {want!r}"


def outcome(run: Callable[[], Any]) -> Any:
    """The results, or the exception."""
    try:
        return run()
    except (ArithmeticError, AssertionError, LookupError, ValueError, RecursionError) as e:
        return e


def same(got: Any, want: Any, rtol: float) -> bool:
    """True if two outcomes are equal up to rounding; of exceptions the type counts and the message."""
    if isinstance(got, Exception) or isinstance(want, Exception):
        return type(got) is type(want) and str(got) == str(want)
    return len(got) == len(want) and all(_close(x, y, rtol) for x, y in zip(got, want))


def _close(x: Any, y: Any, rtol: float) -> bool:
    if isinstance(x, Frames) or not isinstance(y, (np.ndarray, np.generic)):
        return True                                  # undefined, or what only the program itself can read
    if np.shape(x) != np.shape(y) or x.dtype != y.dtype:
        return False
    rtol = max(rtol, 1e-4) if x.dtype == np.float32 else rtol
    size = np.abs(y[np.isfinite(y)]).max(initial=0.0) if y.dtype.kind == "f" else 0.0
    return np.allclose(x, y, rtol, rtol * (1 + size), equal_nan=True)
