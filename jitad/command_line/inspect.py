"""``python -m jitad inspect``: prints a stage of the compilation."""

from __future__ import annotations

import argparse

from .. import compiler
from .functions import function, function_arguments, signature, signature_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    signature_argument(parser)
    parser.add_argument("--stage", default="ir", choices=compiler.STAGES)


def run(options: argparse.Namespace) -> None:
    fun = function(options)
    print(fun.inspect(options.stage, *signature(fun, options)))
