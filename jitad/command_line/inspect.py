"""``python -m jitad inspect``: prints a stage of the compilation."""

from __future__ import annotations

import argparse

from .. import compiler
from . import text
from .functions import function, function_arguments, signature, signature_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    signature_argument(parser)
    text.text_arguments(parser)
    parser.add_argument("--stage", default="ir", choices=compiler.STAGES)


def run(options: argparse.Namespace) -> None:
    if text.is_text(options.function):
        module = text.read(options)
        print(text.stage_text(module, text.entry(module, options), options.function, options.stage))
        return
    fun = function(options)
    print(fun.inspect(options.stage, *signature(fun, options)))
