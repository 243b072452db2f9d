"""Files of IR text as the argument of a command: reading, errors with file and line, entry, passes, stages."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import compiler, pipeline
from ..errors import CompileError, JitadError
from ..ir.graph import Module
from ..ir.text import ParseError, parse_module
from ..ir.verify import VerifyError, verify
from .failures import Refused


def is_text(place: str) -> bool:
    """True if an argument names a file of IR, not a function."""
    return place.endswith(".ir")


def text_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of files of IR; ``read`` and ``entry`` read them."""
    parser.add_argument("--entry", help="of a file: the function that is called from outside")
    parser.add_argument("--fastmath", action="store_true", help="of a file: compile as jit(fastmath=True)")
    parser.add_argument("--parallel", action="store_true", help="of a file: compile as jit(parallel=True)")


def read(options: argparse.Namespace) -> Module:
    """The module in the file ``options.function``, verified; raises ``Refused`` with file and line."""
    path = options.function
    try:
        module = parse_module(Path(path).read_text(encoding="utf-8"), path)
    except ParseError as e:
        raise Refused(str(e).partition("\n")[0]) from None
    except UnicodeDecodeError as e:
        raise Refused(f"{path}: this is no text: {e}") from None
    except OSError as e:
        raise Refused(f"{path}: {e.strerror}") from None
    if not module.functions:
        raise Refused(f"{path}: there is no function in it")
    module.fastmath, module.parallel = options.fastmath, options.parallel
    verified(module, path, "", linear=False)
    return module


def verified(module: Module, path: str, after: str, linear: bool) -> None:
    """Raises ``Refused``, with one line for each violation, if the module is not well formed."""
    try:
        verify(module, linear=linear)
    except VerifyError as e:
        behind = f" (after {after})" if after else ""
        raise Refused("\n".join(f"{v.loc if v.loc.line else path}: @{v.function}: {v.message}{behind}"
                                for v in e.violations)) from None


def entry(module: Module, options: argparse.Namespace) -> str:
    """The function that ``--entry`` names, or else the one that no other function uses."""
    names = [*module.functions, *module.derived]
    if options.entry is not None:
        if options.entry not in names:
            raise Refused(f"{options.function}: there is no function @{options.entry}, only {_listed(names)}")
        return str(options.entry)
    used = _used(module) | {*module.derived}                # nothing may call a derivative that passes have inlined
    free = [name for name in module.functions if name not in used]
    if len(free) != 1:
        raise Refused(f"{options.function}: which function is called from outside? --entry with one of "
                      f"{_listed(free or names)}")
    return free[0]


def _used(module: Module) -> set[str]:
    """The functions that other functions call, or that derivatives and rules are of."""
    called = {x for func in module.functions.values() for block in func.blocks
              for op in (*block.ops, *([block.term] if block.term is not None else []))
              for x in op.attrs.values() if isinstance(x, str) and x != func.name}
    called |= {derived.base for derived in module.derived.values()}
    return called | {name for rule in module.rules.values() for name in rule.functions} | {*module.rules}


def _listed(names: list[str]) -> str:
    return ", ".join(f"@{name}" for name in names)


def staged(module: Module, root: str, path: str, stop: str | None = None) -> None:
    """Takes a module to stage ``stop``, by default the last, and verifies it after each."""
    located(path, lambda: pipeline.run(module, [root], lambda stage, now: verified(
        now, path, f"the stage {stage}", linear=stage == "optimized"), stop))


def located(path: str, work: Callable[[], Any]) -> Any:
    """The result of ``work``; errors of the compiler become one line with the file."""
    try:
        return work()
    except Refused:
        raise
    except CompileError as e:
        raise Refused(f"{path}: {str(e).partition(chr(10))[0]}") from None


def stage_text(module: Module, root: str, path: str, stage: str) -> str:
    """The text of a stage; raises ``Refused``."""
    try:
        return str(located(path, lambda: compiler.module_text(module, root, stage)))
    except Refused:
        raise
    except JitadError as e:
        raise Refused(f"{path}: {e.message}") from None
