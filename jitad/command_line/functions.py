"""Arguments that several commands take: a function, its derivative, its signature, values."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import api
from ..calling.signature import Spec, spec
from ..errors import JitadError


def function_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a function or its derivative; ``function`` reads them."""
    parser.add_argument("function", help="module:name, or a file of IR: name.ir")
    parser.add_argument("--grad", help="the derivative with respect to this argument (a name or a position)")


def signature_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that gives the types; ``signature`` reads it."""
    parser.add_argument("--signature", default="", help='argument types: "f64[:], i64"')


def function(options: argparse.Namespace) -> Any:
    """The jitted function, or the derivative, that the command line names."""
    fun = load(options.function)
    return fun if options.grad is None else api.jit(fun, grad=_argnum(options.grad)).grad


def load(place: str) -> Any:
    """The function that ``module:name`` names, jitted if it is not."""
    module, colon, name = place.partition(":")
    if not colon:
        raise JitadError(f"{place!r} names no function", hint="write module:name")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as e:
        raise JitadError(f"there is no {place}: {e}", hint="write module:name, in the module's folder") from None
    if not callable(found):
        raise JitadError(f"{place} is no function: it is {found!r}", hint="write module:name of a function")
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


def signature(fun: Any, options: argparse.Namespace) -> Sequence[Spec]:
    """The types that ``--signature`` gives, at least one if ``fun`` takes arguments."""
    known = specs(options.signature)
    if not known and inspect.signature(fun).parameters:
        raise JitadError(f"{fun.__name__}{inspect.signature(fun)} takes arguments",
                         hint='--signature with a type for each, such as "f64[:], i64"')
    return known


def literal(text: str) -> Any:
    """The value of a Python literal; a list becomes an array."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise JitadError(f"{text!r} is no Python literal", hint='write numbers and lists: 1.0 "[1.0, 2.0]"') from None
    return np.array(value) if isinstance(value, list) else value
