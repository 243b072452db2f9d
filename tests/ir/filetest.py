"""File tests: IR text in, IR text out.

::

    ; test: cps, dce              passes to run, by name (``PASSES_BY_NAME``); or print, verify, structure;
    ; test: dce, loops            last, ``loops``: the loop level of the result; or loop_print, loop_verify: the file
                                  is text of that level; after these, ``mlir``: its MLIR text
    ; test: dce, gpu              last: the host program of the first function for a GPU, and its kernels
    ; run: @f(1.0, [2.0]) == 3.0  what the program means, before and after the passes; ``~=``: up to rounding;
    ; run: @f(0.0, []) raises IndexError: out of range        ``raises``: an exception and its message
    func @f(…) …                  the program; under ``test: verify`` a line that breaks an invariant ends in
      …                           ``; error: part of the message``, or the line above it is such a comment
    ; ----
    func @f(…) …                  exactly what must come out; ``BLESS=1 pytest tests/ir/test_filetests.py`` writes it

A ``run`` line is evaluated by the interpreter, with arrays as values and, where they may be, in place; by compiled code
where the module can be compiled, and by the interpreter of its loop level.  Under ``loops`` and ``loop_print``
independent loops run forward and backward.  ``verify`` checks memory too, ``structure`` does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jitad.lowering.gpu.program import compile_program
from jitad.lowering.jit.invoke import invoke
from jitad.lowering.math.options import Options

from jitad.command_line.single_passes import PASSES_BY_NAME
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Module
from jitad.ir.text import parse_module, print_module
from jitad.ir.verify import VerifyError, verify
from jitad.loop_level import text as loop_text
from jitad.loop_level.build import to_loops
from jitad.loop_level.interp import LoopInterpreter
from jitad.loop_level.verify import verify as verify_loops
from jitad.mlir.text import print_mlir

RULE = "; ----\n"
_RUN = re.compile(r"; run: @([\w.$<>]+)\((.*)\)\s*(==|~=|raises)\s*(.*)")
_CONSTANTS = {"inf": np.inf, "nan": np.nan, "__builtins__": {}}

Runner = Callable[[Module, str, list[Any]], list[Any]]


@dataclass
class FileTest:
    """One file, read."""

    path: Path
    source: str
    expected: str
    passes: list[str] = field(default_factory=list)
    runs: list[tuple[str, str, str, str]] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)

    def module(self) -> Module:
        read_text = loop_text.parse_module if self.passes[0] in ("loop_print", "loop_verify") else parse_module
        return read_text(self.source, self.path.name)


def read(path: Path) -> FileTest:
    source, _, expected = path.read_text().partition(RULE)
    test = FileTest(path, source, expected)
    lines = source.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("; test:"):
            test.passes = [name.strip() for name in line.removeprefix("; test:").split(",")]
        elif line.startswith("; run:"):
            found = _RUN.match(line)
            assert found, f"{path.name}:{number}: not a run line"
            test.runs.append((found[1], found[2], found[3], found[4]))
        elif "; error:" in line:
            above, _, text = line.partition("; error:")
            test.errors.append((number if above.strip() else number + 1, text.strip()))
    assert test.passes, f"{path.name}: no line '; test: …'"
    return test


def check(test: FileTest) -> None:
    """Run a test; raises ``AssertionError`` with what differs."""
    if test.passes[0] in ("verify", "structure", "loop_verify"):
        _check_errors(test)
        return
    module = test.module()
    if test.passes[0] == "loop_print":
        _check_loops(test, module)
        return
    check_runs(test, module, _runners(module))
    for name in test.passes:
        if name not in ("print", "loops", "mlir", "gpu"):
            PASSES_BY_NAME[name](module)
            verify(module, linear=name == "copy_insertion")
    check_runs(test, module, _runners(module))
    if test.passes[-1] == "gpu":
        program = compile_program(module, next(iter(module.functions)), Options())
        _check_text(test, f"{program.source}\n{program.image.text}")
        return
    if "loops" in test.passes:
        _check_loops(test, to_loops(module))
        return
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    _check_text(test, text)


def _check_loops(test: FileTest, module: Module) -> None:
    """Check a module of the loop level."""
    verify_loops(module)
    check_runs(test, module, [lambda m, name, args: LoopInterpreter(m).run(name, args),
                               lambda m, name, args: LoopInterpreter(m, backwards=True).run(name, args)])
    text = loop_text.print_module(module)
    assert loop_text.print_module(loop_text.parse_module(text)) == text
    _check_text(test, print_mlir(module) if test.passes[-1] == "mlir" else text)


def _check_text(test: FileTest, text: str) -> None:
    if os.environ.get("BLESS"):
        test.path.write_text(test.source.rstrip("\n") + "\n\n" + RULE + text)
        return
    assert text == test.expected, f"{test.path.name}: other text comes out (BLESS=1 writes it)"


def _check_errors(test: FileTest) -> None:
    try:
        if test.passes[0] == "loop_verify":
            verify_loops(test.module())
        else:
            verify(test.module(), linear=test.passes[0] == "verify")
        found = []
    except VerifyError as e:
        found = [(v.loc.line, v.message) for v in e.violations]
    missing = [e for e in test.errors if not any(line == e[0] and e[1] in message for line, message in found)]
    surplus = [f for f in found if not any(f[0] == line and text in f[1] for line, text in test.errors)]
    assert not missing and not surplus, f"{test.path.name}: not reported {missing}; reported as well {surplus}"


# --- run lines ----------------------------------------------------------------------------------------

def check_runs(test: FileTest, module: Module, runners: Iterable[Runner]) -> None:
    ways = list(runners)
    for name, args, relation, wanted in test.runs:
        if name in module.derived and name not in module.functions:
            continue                                    # the passes will make it
        for runner in ways:
            values = list(eval(f"({args},)" if args else "()", dict(_CONSTANTS)))
            what = f"{test.path.name}: @{name}({args})"
            _check_run(what, partial(runner, module, name, values), relation, wanted)


def _runners(module: Module) -> Iterator[Runner]:
    yield lambda m, name, args: Interpreter(m).run(name, args)
    if module.derived.keys() <= module.functions.keys() and in_place(module):
        yield lambda m, name, args: Interpreter(m, in_place=True).run(name, args)
        yield invoke
        loops = to_loops(module)
        verify_loops(loops)
        yield lambda m, name, args: LoopInterpreter(loops).run(name, args)


def in_place(module: Module) -> bool:
    try:
        verify(module)
    except VerifyError:
        return False
    return True


def _check_run(what: str, run: Callable[[], list[Any]], relation: str, wanted: str) -> None:
    if relation == "raises":
        try:
            got: Any = run()
        except Exception as e:
            got = f"{type(e).__name__}: {e}".removesuffix(": ")
        assert got == wanted, f"{what} gives {got}, not {wanted}"
        return
    expected = eval(wanted, dict(_CONSTANTS))
    results = run()
    parts = expected if isinstance(expected, tuple) else (expected,)
    assert len(results) == len(parts), f"{what} gives {len(results)} results"
    for result, part in zip(results, parts):
        if relation == "==":
            agree = np.array_equal(result, part, equal_nan=True)
        else:
            agree = np.shape(result) == np.shape(part) and np.allclose(result, part, 1e-10, 1e-12, equal_nan=True)
        assert agree, f"{what} gives {results}, not {wanted}"
