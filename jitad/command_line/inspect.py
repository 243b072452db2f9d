"""``python -m jitad inspect``: prints a stage of the compilation."""

from __future__ import annotations

import argparse

from .. import compiler
from . import text
from .failures import Refused
from .functions import function, function_arguments, signature, signature_argument

OF_KERNELS = ("plan", "sass")


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    signature_argument(parser)
    text.text_arguments(parser)
    parser.add_argument("--stage", default="ir", choices=(*compiler.STAGES, *OF_KERNELS),
                        help="plan and sass are those of jit(target='cuda')")
    parser.add_argument("--arch", help="the GPU's architecture for ptx and sass: sm_90")


def run(options: argparse.Namespace) -> None:
    if text.is_text(options.function):
        if options.stage in OF_KERNELS:
            raise Refused(f"{options.function}: {options.stage} is a stage of functions of jit(target='cuda')")
        module = text.read(options)
        print(text.stage_text(module, text.entry(module, options), options.function, options.stage))
        return
    fun = function(options)
    more = {} if options.arch is None else {"arch": options.arch}
    print(fun.inspect(options.stage, *signature(fun, options), **more))
