"""The parameters of the called function: they give the order of arguments and name the static ones."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from ..compiler_threads import with_room

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Parameters:
    """The parameters of ``fun``; ``static``: the positions and names given to ``jit(static=…)``."""

    def __init__(self, fun: Callable[..., Any], static: tuple[str | int, ...]) -> None:
        self.fun, self._static = fun, static

    @property
    def _code(self) -> CodeType | None:
        """The code of a plain function, which tells its parameters without the front end."""
        return self.fun.__code__ if type(self.fun) is FunctionType else None

    @cached_property
    def known(self) -> list[inspect.Parameter]:
        return parameters(self.fun)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters that can be passed by position."""
        if self._code is not None:
            return self._code.co_varnames[:self._code.co_argcount]
        return tuple(p.name for p in self.known if p.kind in POSITIONAL)

    @cached_property
    def static(self) -> frozenset[str | int]:
        """The positions and names of the parameters that are compile-time constants.

        Raises TypeError for a position or name that is not a parameter.
        """
        if not self._static:
            return frozenset()
        known = _callables().positional(self.fun) if self.known else []
        names = [self._static_name(key, known) for key in self._static]
        return frozenset([*names, *(known.index(name) for name in names if name in known)])

    def _static_name(self, key: str | int, names: Sequence[str]) -> str:
        if isinstance(key, int) and -len(names) <= key < len(names):
            return names[key]
        if isinstance(key, str) and (self._takes_any_name or key in [*names, *(p.name for p in self.known)]):
            return key
        raise TypeError(f"jit(static=…): {name_of(self.fun)}() has no parameter {key!r}: there are {', '.join(names)}")

    @cached_property
    def _takes_any_name(self) -> bool:
        if self._code is not None:
            return bool(self._code.co_flags & inspect.CO_VARKEYWORDS)
        return any(p.kind is p.VAR_KEYWORD for p in self.known)

    @cached_property
    def _by_position_alone(self) -> int:
        if self._code is not None:
            return self._code.co_posonlyargcount
        return sum(p.kind is p.POSITIONAL_ONLY for p in self.known)

    @property
    def count(self) -> int | None:
        """The number of parameters, or None if Python cannot tell."""
        try:
            return len(_callables().signature_of(self.fun).parameters)
        except (TypeError, ValueError):
            return None

    def ordered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with as many arguments by position as possible, and the others sorted by name.

        Arguments for ``**kwargs`` keep their order, since the function can see it.
        """
        if not kwargs:
            return args, kwargs
        rest, moved = dict(kwargs), list(args)
        for name in self.names[len(args):] if len(args) >= self._by_position_alone else ():
            if name not in rest:
                break
            moved.append(rest.pop(name))
        return tuple(moved), {k: rest[k] for k in (rest if self._takes_any_name else sorted(rest))}

    def check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises Python's TypeError if the function does not accept this call."""
        try:
            found = _callables().signature_of(self.fun)
        except (TypeError, ValueError):
            return
        free = [p.name for p in found.parameters.values() if p.kind is p.POSITIONAL_ONLY and self._takes_any_name]
        try:
            found.bind(*args, **{k: v for k, v in kwargs.items() if k not in free})      # which it refuses
        except TypeError as e:
            raise TypeError(f"{name_of(self.fun)}() {e}") from None


def _callables() -> Any:
    """The part of the front end that knows callables; code from the disk cache is called without it."""
    return with_room(lambda: importlib.import_module("..frontend.callables.traceable", __package__))


def parameters(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a callable, or an empty list if Python cannot tell."""
    try:
        return list(_callables().signature_of(fun).parameters.values())
    except (TypeError, ValueError):
        return []


def name_of(fun: Any) -> str:
    return getattr(fun, "__name__", type(fun).__name__)
