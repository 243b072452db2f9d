"""``python -m jitad run``: calls a function with Python literals."""

from __future__ import annotations

import argparse

from .functions import function, function_arguments, literal


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    parser.add_argument("arguments", nargs="*", help="Python literals; lists of numbers become arrays")


def run(options: argparse.Namespace) -> None:
    fun = function(options)
    print(fun(*map(literal, options.arguments)))
