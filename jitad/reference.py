"""Evaluation by the reference semantics: the traced program of a Python function, including its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .calling.handle import dispatcher, given_to
from .compiler import traced
from .compiler_threads import with_room
from .errors import UnsupportedError, with_columns
from .evaluation import as_returned, evaluated, program_of, with_arguments
from .frontend.columns.pack import returned
from .frontend.trace.trace_program import Traced
from .semantics.evaluate import Evaluator
from .semantics.kinks import Tell, Watcher
from .semantics.trace import Trace


def interpret(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The result of ``fun`` for these arguments by definition; ``fun`` may be plain, jitted, or a derivative.

    The program is evaluated as traced, one NumPy call per operation.  A derivative in it is the derivative of the trace
    that the function leaves at its arguments.  The optimiser, the transforms of the IR and the compiler are not used.
    ``docs/semantics.md`` describes the method.  Raises the exceptions that the program raises.
    """
    if not callable(fun):
        raise TypeError(f"interpret takes a function, not {fun!r}")
    return with_room(lambda: _interpreted(fun, args, kwargs))


def _interpreted(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    program, given = program_for(fun, args, kwargs)
    return evaluated(program, given, args, kwargs)


def watch(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell) -> Any:
    """``interpret``, with ``tell`` called for each point without a derivative (``semantics.kinks``)."""
    return with_room(lambda: _watched(fun, args, kwargs, tell))


def _watched(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tell: Tell) -> Any:
    program, given = program_for(fun, args, kwargs)
    own = len(given) - len(program.consts)
    results = Watcher(program.module, tell).watch(program.root, given, own)
    return returned(as_returned(program, results), (args, kwargs))


def trace_of(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Trace:
    """The trace that ``fun`` leaves at these arguments.

    Its inputs are the floats of the arguments, its outputs the leaves of the result.

    ``str`` prints it; ``semantics.differentiate.reverse`` differentiates it.
    """
    program, given = program_for(fun, args, kwargs)
    return Evaluator(program.module).trace(program.root, given)


def program_for(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Traced, list[Any]]:
    """The program of a function, and the arguments of its root."""
    jitted = getattr(fun, "__func__", None)
    if _is_jitted(jitted):
        return program_for(jitted, (fun.__self__, *args), kwargs)
    if not _is_jitted(fun):
        return program_of(fun, args, kwargs)
    asked, args = dispatcher(fun), given_to(fun, args)
    sig, leaves = asked.signature(args, kwargs)
    try:
        program = traced(asked.fun, sig, asked.options, leaves)
    except (UnsupportedError, TypeError) as e:               # as in ``calling.dispatch``
        if not with_columns(e):
            raise
        sig, leaves = asked.apart(args, kwargs)
        program = traced(asked.fun, sig, asked.options.one_by_one(), leaves)
    return with_arguments(program, sig, leaves)


def _is_jitted(fun: Any) -> bool:
    return getattr(type(fun), "is_jitad", False)
