"""What a Python function means: its traced program, derivatives included, by the reference semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .api import dispatcher
from .compiler import fixed_leaves, traced
from .frontend.packed import returned
from .frontend.pytree import unflatten
from .frontend.tracer import Traced
from .frontend.values import Options
from .ir.types import Scalar, Type
from .semantics.evaluate import Evaluator
from .semantics.kinks import Tell, Watcher
from .semantics.trace import Trace
from .room import with_room
from .signature import Static, signature


def interpret(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What ``fun`` yields for these arguments by definition; ``fun`` may be plain, jitted, or a derivative.

    The program is evaluated as it was traced, one NumPy call an operation, and derivatives in it by the derivatives of
    the traces they leave at their arguments: nothing that optimises, differentiates or compiles is behind it.
    ``docs/semantics.md`` describes how.  Raises what the program raises.
    """
    if not callable(fun):
        raise TypeError(f"interpret takes a function, not {fun!r}")
    return with_room(lambda: _interpreted(fun, args, kwargs))


def _interpreted(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    program, given = _traced(fun, args, kwargs)
    return returned(_as_returned(program, Evaluator(program.module).run(program.root, given)), (args, kwargs))


def watch(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell) -> Any:
    """``interpret``, with ``tell`` called for each point without a derivative that it meets (``semantics.kinks``)."""
    return with_room(lambda: _watched(fun, args, kwargs, tell))


def _watched(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell) -> Any:
    program, given = _traced(fun, args, kwargs)
    own = len(given) - len(program.consts)
    results = Watcher(program.module, tell).watch(program.root, given, own)
    return returned(_as_returned(program, results), (args, kwargs))


def _as_returned(program: Traced, results: list[Any]) -> Any:
    types = program.module.functions[program.root].result_types
    computed = iter([boxed(x, t) for x, t in zip(results, types)])
    fixed = fixed_leaves(program)
    count = program.out_structure.count
    return unflatten(program.out_structure, [fixed[i] if i in fixed else next(computed) for i in range(count)])


def trace_of(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Trace:
    """The trace that ``fun`` leaves at these arguments: its inputs are their floats, its outputs the result's leaves.

    ``str`` of it is its text; ``semantics.differentiate.reverse`` differentiates it.
    """
    program, given = _traced(fun, args, kwargs)
    return Evaluator(program.module).trace(program.root, given)


def _traced(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Traced, list[Any]]:
    """The program of a function, and what to call its root with."""
    jitted = getattr(fun, "__func__", None)
    if _is_jitted(jitted):
        return _traced(jitted, (fun.__self__, *args), kwargs)
    if _is_jitted(fun):
        asked = dispatcher(fun)
        sig, leaves = asked.signature(args, kwargs)
        program = traced(asked.fun, sig, asked.options)
    else:
        sig, leaves = signature(args, kwargs, frozenset(), False)
        program = traced(fun, sig, Options())
    given = [x for x, leaf in zip(leaves, sig.leaves) if not isinstance(leaf, Static)]
    return program, [*given, *program.consts]


def _is_jitted(fun: Any) -> bool:
    return getattr(type(fun), "is_jitad", False)


def boxed(x: Any, t: Type) -> Any:
    """A result as compiled code would return it: Python's scalars of the types that Python has, else NumPy's."""
    if not isinstance(t, Scalar):
        return x
    return x.item() if t.of_python and isinstance(x, np.generic) else x
