"""Evaluation of plain functions and derivatives by the reference semantics; ``reference.py`` adds jitted functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .calling.signature import Signature, signature
from .compiler import fixed_leaves, traced
from .errors import UnsupportedError, with_columns
from .frontend.captured.leaves import Leaf
from .frontend.captured.options import Options
from .frontend.columns.pack import returned
from .frontend.trace.trace_program import Traced
from .ir.types import Scalar, Type
from .pytree import unflatten
from .semantics.evaluate import Evaluator


def program_of(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Traced, list[Any]]:
    """The program of a function that is not jitted, and the arguments of its root."""
    options = Options()
    sig, leaves = signature(args, kwargs, frozenset(), False)
    try:
        program = traced(fun, sig, options, leaves)
    except (UnsupportedError, TypeError) as e:               # as in ``calling.dispatch``
        if not with_columns(e):
            raise
        sig, leaves = signature(args, kwargs, frozenset(), False, False)
        program = traced(fun, sig, options.one_by_one(), leaves)
    return with_arguments(program, sig, leaves)


def with_arguments(program: Traced, sig: Signature, leaves: list[Any]) -> tuple[Traced, list[Any]]:
    """A program, and the arguments of its root: the leaves that are not constants, then the captured values."""
    given = [x for x, leaf in zip(leaves, sig.leaves) if isinstance(leaf, Leaf)]
    return program, [*given, *program.consts]


def evaluated(program: Traced, given: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a program for the call with these arguments."""
    results = Evaluator(program.module).run(program.root, given)
    return returned(as_returned(program, results), (args, kwargs))


def as_returned(program: Traced, results: list[Any]) -> Any:
    """The results of a program's root in the structure that the function returns."""
    types = program.module.functions[program.root].result_types
    computed = iter([boxed(x, t) for x, t in zip(results, types)])
    fixed = fixed_leaves(program)
    count = program.out_structure.count
    return unflatten(program.out_structure, [fixed[i] if i in fixed else next(computed) for i in range(count)])


def boxed(x: Any, t: Type) -> Any:
    """A result as compiled code returns it: a Python number for Python's types, else a NumPy scalar."""
    if not isinstance(t, Scalar):
        return x
    return x.item() if t.of_python and isinstance(x, np.generic) else x
