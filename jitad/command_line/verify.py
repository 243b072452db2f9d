"""``python -m jitad verify``: compiles, and verifies the IR after every stage."""

from __future__ import annotations

import argparse

from .. import compiler, pipeline
from ..calling.handle import dispatcher, given_to
from ..ir.graph import Module
from ..ir.verify import verify
from . import text
from .functions import function, function_arguments, signature, signature_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    signature_argument(parser)
    text.text_arguments(parser)


def run(options: argparse.Namespace) -> None:
    module = _text(options) if text.is_text(options.function) else _function(options)
    print(f"{options.function}: {len(module.functions)} functions, well formed at every stage")


def _function(options: argparse.Namespace) -> Module:
    fun = function(options)
    known = dispatcher(fun)
    types, leaves = known.signature_for(given_to(fun, tuple(signature(fun, options))), {})
    program = compiler.traced(known.fun, types, known.options, leaves)
    verify(program.module, linear=False)
    pipeline.run(program.module, [program.root], lambda stage, module: verify(module, linear=stage == "optimized"))
    return program.module


def _text(options: argparse.Namespace) -> Module:
    module = text.read(options)
    text.staged(module, text.entry(module, options), options.function)
    return module
