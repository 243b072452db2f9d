"""``python -m jitad run``: calls a function with Python literals."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ..errors import JitadError
from ..ir.evaluate.interp import Interpreter
from ..ir.graph import Function
from ..ir.types import Array, Scalar, Type, dims_of
from ..lowering.jit.invoke import invoke
from . import text
from .failures import Refused
from .functions import function, function_arguments, literal


def arguments(parser: argparse.ArgumentParser) -> None:
    function_arguments(parser)
    text.text_arguments(parser)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--interpret", action="store_true", help="of a file: evaluate it as it is")
    ways.add_argument("--compiled", action="store_true", help="of a file: optimise and compile it (default)")
    ways.add_argument("--as-is", action="store_true", help="of a file: compile it without optimisation")
    parser.add_argument("arguments", nargs="*", help="Python literals or .npy files; lists of numbers become arrays")
    parser.set_defaults(intermixed=True)


def run(options: argparse.Namespace) -> None:
    if text.is_text(options.function):
        for result in _results(options):
            print(result)
        return
    fun = function(options)
    print(fun(*map(value, options.arguments)))


def value(given: str) -> Any:
    """The array in a ``.npy`` file, or the value of a literal."""
    if not given.endswith(".npy"):
        return literal(given)
    try:
        return np.load(given, allow_pickle=False)
    except (OSError, ValueError) as e:
        raise Refused(f"{given}: {e}") from None


def _results(options: argparse.Namespace) -> list[Any]:
    """The results of a file's function, which may raise exceptions of the program."""
    module = text.read(options)
    root = text.entry(module, options)
    optimised = not (options.interpret or options.as_is)
    if optimised:
        text.staged(module, root, options.function)
    missing = [name for name in module.derived if name not in module.functions]
    if missing:
        raise Refused(f"{options.function}: @{missing[0]} has no code yet: run it without --interpret and --as-is, or "
                      "make it by `opt --passes=cps,differentiate`")
    if options.as_is:
        text.verified(module, options.function, "reading it", linear=True)
    values = _values(module.functions[root], [value(given) for given in options.arguments], options.function)
    try:
        if options.interpret:
            return Interpreter(module).run(root, values)
        return invoke(module, root, values)
    except JitadError:
        raise
    except Exception as e:
        raise Refused(f"{options.function}: @{root}: {type(e).__name__}: {e}") from None


def _values(func: Function, given: list[Any], path: str) -> list[Any]:
    """The arguments in the types of the parameters."""
    if len(given) != len(func.params):
        raise Refused(f"{path}: @{func.name} takes {len(func.params)} arguments, not {len(given)}")
    return [_value(param.type, x, f"{path}: @{func.name}: %{param.hint or i}")
            for i, (param, x) in enumerate(zip(func.params, given))]


def _value(t: Type, x: Any, what: str) -> Any:
    found, sizes = np.asarray(x), dims_of(t)
    fits = found.ndim == len(sizes) and all(n is None or n == m for n, m in zip(sizes, found.shape))
    kind = t.dtype if isinstance(t, Array) else t
    if not fits or not isinstance(kind, Scalar) or not np.can_cast(found.dtype, kind.np, "same_kind"):
        raise Refused(f"{what} has the type {t}, not {found.dtype}{list(found.shape) if found.shape else ''}")
    return found.astype(kind.np)[()]
