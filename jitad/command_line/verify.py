"""``python -m jitad verify``: compiles, and verifies the IR after every stage."""

from __future__ import annotations

import argparse

from .. import api, compiler, pipeline
from ..ir.verify import verify
from .functions import function, function_arguments, signature, signature_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    signature_argument(parser)


def run(options: argparse.Namespace) -> None:
    fun = function(options)
    known = api.dispatcher(fun)
    types, leaves = known.signature_for(api.given_to(fun, tuple(signature(fun, options))), {})
    program = compiler.traced(known.fun, types, known.options, leaves)
    verify(program.module, linear=False)
    pipeline.run(program.module, [program.root], lambda stage, module: verify(module, linear=stage == "optimized"))
    print(f"{options.function}: {len(program.module.functions)} functions, well formed at every stage")
