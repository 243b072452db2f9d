"""``python -m jitad opt``: runs passes on a file of IR text and prints the result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from ..ir.graph import Module
from ..ir.text import print_module
from . import text
from .failures import Refused
from .single_passes import PASSES_BY_NAME


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", nargs="?", metavar="file.ir", help="a file of IR")
    parser.add_argument("--passes", default="", help="passes to run, in this order: cps,licm,cse")
    parser.add_argument("--list", action="store_true", help="list the passes")
    text.text_arguments(parser)


def run(options: argparse.Namespace) -> None:
    if options.list:
        width = max(map(len, PASSES_BY_NAME))
        print("\n".join(f"{name:{width}}  {summary(run_pass)}" for name, run_pass in PASSES_BY_NAME.items()))
        return
    if options.function is None:
        raise Refused("opt takes a file of IR: python -m jitad opt --passes=cps,licm file.ir")
    names = [name for name in map(str.strip, options.passes.split(",")) if name]
    if unknown := [name for name in names if name not in PASSES_BY_NAME]:
        raise Refused(f"--passes: no pass {', '.join(unknown)}; --list lists them")
    module = text.read(options)
    for name in names:
        text.located(options.function, lambda name=name: PASSES_BY_NAME[name](module))     # type: ignore[misc]
        text.verified(module, options.function, f"the pass {name}", linear=name == "copy_insertion")
    print(print_module(module), end="")


def summary(run_pass: Callable[[Module], object]) -> str:
    """The first line of the documentation of a pass: its module's, which has its name."""
    module = sys.modules[run_pass.__module__]
    shared = run_pass.__module__.endswith(".pipeline")
    line = ((run_pass if shared else module).__doc__ or "").partition("\n")[0]
    return line.removesuffix("::").replace("``", "`")
