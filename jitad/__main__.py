"""``python -m jitad``: inspects, runs, verifies or builds a jitted function.

::

    python -m jitad inspect pkg.mod:f --signature "f64[:], f64" --stage cps
    python -m jitad run --grad 0 pkg.mod:f 1.0 "[1.0, 2.0]"
    python -m jitad verify pkg.mod:f --signature "f64[:], f64"
    python -m jitad build pkg.mod:f --signature "f64[:], f64" --grad 0 -o libf.so --header f.h
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import api, compiler, pipeline
from .aot import command as build
from .calling.signature import Spec, spec
from .errors import JitadError
from .ir.verify import verify


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 on success, 1 on an error of jitad."""
    options = _parser().parse_args(argv)
    sys.path.insert(0, os.getcwd())
    try:
        if "command" in options:                             # a command of another module
            options.command(options)
            return 0
        fun = _load(options.function)
        if options.grad is not None:
            fun = api.jit(fun, grad=_argnum(options.grad)).grad
        options.run(fun, options)
        sys.stdout.flush()
    except JitadError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    except BrokenPipeError:                                 # the reader has closed the pipe: `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m jitad", description="Look inside a jitted function.")
    commands = parser.add_subparsers(required=True)
    for name, run, what in (("inspect", _inspect, "print a stage of the compilation"),
                            ("run", _run, "call the function with Python literals"),
                            ("verify", _verify, "compile, and verify the IR after every pass")):
        command = commands.add_parser(name, help=what)
        command.set_defaults(run=run)
        command.add_argument("function", help="module:name")
        command.add_argument("--grad", help="the derivative with respect to this argument (a name or a position)")
        if name == "run":
            command.add_argument("arguments", nargs="*", help="Python literals; lists of numbers become arrays")
        else:
            command.add_argument("--signature", default="", help='argument types: "f64[:], i64"')
        if name == "inspect":
            command.add_argument("--stage", default="ir", choices=compiler.STAGES)
    build.add(commands, _load)
    return parser


def _load(place: str) -> Any:
    module, colon, name = place.partition(":")
    if not colon:
        raise JitadError(f"{place!r} names no function", hint="write module:name")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as e:
        raise JitadError(f"there is no {place}: {e}", hint="write module:name, in the module's folder") from None
    return found if getattr(type(found), "is_jitad", False) else api.jit(found)


def _argnum(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def specs(text: str) -> list[Spec]:
    """The types in a signature, separated by commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    try:
        return [spec(p) for p in parts if p]
    except ValueError as e:
        raise JitadError(f"--signature {text!r}: {e}") from None


def _signature(fun: Any, text: str) -> Sequence[Spec]:
    known = specs(text)
    if not known and inspect.signature(fun).parameters:
        raise JitadError(f"{fun.__name__}{inspect.signature(fun)} takes arguments",
                         hint='--signature with a type for each, such as "f64[:], i64"')
    return known


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise JitadError(f"{text!r} is no Python literal", hint='write numbers and lists: 1.0 "[1.0, 2.0]"') from None
    return np.array(value) if isinstance(value, list) else value


def _inspect(fun: Any, options: argparse.Namespace) -> None:
    print(fun.inspect(options.stage, *_signature(fun, options.signature)))


def _run(fun: Any, options: argparse.Namespace) -> None:
    print(fun(*map(_literal, options.arguments)))


def _verify(fun: Any, options: argparse.Namespace) -> None:
    """Runs the verifier after every stage of the pipeline."""
    known = api.dispatcher(fun)
    signature, leaves = known.signature_for(api.given_to(fun, tuple(_signature(fun, options.signature))), {})
    program = compiler.traced(known.fun, signature, known.options, leaves)
    verify(program.module, linear=False)
    pipeline.run(program.module, [program.root], lambda stage, module: verify(module, linear=stage == "optimized"))
    print(f"{options.function}: {len(program.module.functions)} functions, well formed at every stage")


if __name__ == "__main__":
    sys.exit(main())
