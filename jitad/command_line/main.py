"""Parses the command line, imports the module of the command that it names, and runs it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from ..errors import JitadError
from .failures import Refused

COMMANDS = {
    "inspect": "print a stage of the compilation",
    "run": "call a function with Python literals",
    "verify": "compile, and verify the IR after every stage",
    "opt": "run passes on a file of IR, and print the result",
    "build": "compile functions to a library with a C interface",
    "cache": "describe or empty the disk cache",
}
"""Name and summary of each command; the module of that name has ``arguments(parser)`` and ``run(options)``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 on success, 1 on an error of jitad."""
    options = _parse(sys.argv[1:] if argv is None else list(argv))
    sys.path.insert(0, os.getcwd())
    try:
        options.run(options)
        sys.stdout.flush()
    except JitadError as e:
        print(e.message if isinstance(e, Refused) else f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    except BrokenPipeError:                                 # the reader has closed the pipe: `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options.  Only the command that ``argv`` names is imported: some do not need the compiler."""
    parser = argparse.ArgumentParser(prog="python -m jitad", description="Look inside a function, or a file of IR.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if argv and argv[0] == name:
            module = importlib.import_module(f"{__package__}.{name}")
            module.arguments(command)
            command.set_defaults(run=module.run)
            if command.get_default("intermixed"):           # options may stand between the positional arguments
                return command.parse_intermixed_args(argv[1:])
    return parser.parse_args(argv)
