"""``custom_vjp`` and ``custom_jvp``: functions that define their own derivatives.

This file has the objects that users hold; ``rule_calls.py`` records their calls.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import DifferentiationError
from ..values.protocol import Trace
from . import trampolines
from .traceable import Maker, Traceable, check_options, described, native

Nondiff = tuple[int, ...]


class Definition(Traceable):
    """A method that defines a rule of its function, in traced code and outside: ``f.defvjp(…)``."""

    def __init__(self, define: Callable[..., Any], of: Any = None) -> None:
        functools.update_wrapper(self, define)
        self.define, self.of = define, of

    def __get__(self, of: Any, owner: type | None = None) -> Definition:
        return self if of is None else Definition(self.define, of)

    def __call__(self, *args: Any) -> Any:
        return self.define(self.of, *(a.py_func if getattr(type(a), "is_jitad", False) else a for a in args))

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.define(self.of, *args, **kwargs)


class Custom(Traceable):
    """A function with rules; arguments at the positions ``nondiff`` are passed to the rules first and unchanged."""

    kind = ""
    define = ""

    def __init__(self, fun: Any, nondiff: Nondiff = (), rules: tuple[Any, ...] = ()) -> None:
        self.fun = fun.py_func if getattr(type(fun), "is_jitad", False) else fun
        if not callable(self.fun) and not hasattr(self.fun, "static"):
            raise TypeError(f"{type(self).__name__} takes a function, not {fun!r}")
        self.__name__ = str(getattr(self.fun, "__name__", "function"))
        functools.update_wrapper(self, self.fun, updated=())
        self.nondiff, self.rules = nondiff, rules
        self._jitted: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_jitted": None}

    @property
    def static(self) -> Any:
        return self.nondiff

    def parts(self) -> tuple[Any, ...]:
        return (self.fun, *self.rules)

    def with_parts(self, parts: tuple[Any, ...]) -> Any:
        return type(self)(parts[0], self.nondiff, tuple(parts[1:]))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._jitted is None:
            self._jitted = native(self)
        return self._jitted(*args, **kwargs)

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return self if obj is None else types.MethodType(self, obj)

    def __repr__(self) -> str:
        return f"<jitad {self.kind} of {getattr(self.fun, '__qualname__', self.fun)}>"

    def set_rules(self, *rules: Any) -> None:
        for rule in rules:
            if not callable(rule) and not hasattr(rule, "static"):
                raise TypeError(f"{self.define} takes functions, not {rule!r}")
        self.rules, self._jitted = rules, None

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.rules:
            raise DifferentiationError(f"`{self.__name__}` is a {self.kind} function without a rule", t.loc,
                                       f"say how it is differentiated: {self.__name__}.{self.define}(…)")
        return t.call_with_rule(self, args, kwargs)


class CustomVjp(Custom):
    kind, define = "custom_vjp", "defvjp"

    @Definition
    def defvjp(self, fwd: Any, bwd: Any) -> None:
        """``f.defvjp(fwd, bwd)``: ``fwd(*args) -> (out, residuals)``, ``bwd(residuals, ct) -> (cotangent, …)``.

        ``bwd`` returns one cotangent for each argument, with the argument's structure; ``None`` stands for zero.
        """
        self.set_rules(fwd, bwd, *self.rules[2:])

    @Definition
    def defjvp(self, rule: Any) -> Any:
        """``f.defjvp(rule)``, after ``defvjp``: adds forward mode, as in ``custom_jvp``.  Usable as a decorator."""
        if not self.rules:
            raise DifferentiationError(f"`{self.__name__}` has no rule for reverse mode yet", None,
                                       f"{self.__name__}.defvjp(…) first, or custom_jvp, whose rule serves both modes")
        self.set_rules(*self.rules[:2], rule)
        return rule


class CustomJvp(Custom):
    kind, define = "custom_jvp", "defjvp"

    @Definition
    def defjvp(self, rule: Any) -> Any:
        """``f.defjvp(rule)``: ``rule(primals, tangents) -> (out, tangent)``, linear in ``tangents``.

        Usable as a decorator.
        """
        self.set_rules(rule)
        return rule

    @Definition
    def defjvps(self, *rules: Any) -> None:
        """``f.defjvps(rule, …)``: ``rule(tangent, out, *args)`` or None for each argument; the results are added."""
        self.set_rules(SumOfParts(self.fun, rules))


class SumOfParts(Traceable):
    """A jvp rule that is the sum of one rule for each argument."""

    static = None

    def __init__(self, fun: Any, rules: tuple[Any, ...]) -> None:
        self.fun, self.rules = fun, rules

    def parts(self) -> tuple[Any, ...]:
        return (self.fun, self.rules)

    def with_parts(self, parts: tuple[Any, ...]) -> SumOfParts:
        return SumOfParts(*parts)

    def __call__(self, primals: Any, tangents: Any) -> Any:
        return trampolines.sum_of_parts(self.fun, self.rules, primals, tangents)

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return t.call(trampolines.sum_of_parts, self.fun, self.rules, *args)


class Decorator(Maker):
    """``custom_vjp`` and ``custom_jvp``, whose result is the same kind of object in traced code and outside."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        check_options(self.make, kwargs)
        return self.make(*args, **kwargs)


def _nondiff(argnums: Any) -> Nondiff:
    found = tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in found):
        raise TypeError(f"nondiff_argnums takes positions, not {described(argnums)}")
    return found


@Decorator
def custom_vjp(fun: Any, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A function whose reverse mode is written by hand: ``f.defvjp(fwd, bwd)``.

    ``fwd(*args) -> (out, residuals)``; ``bwd(residuals, ct)`` returns a tuple of one cotangent for each argument.
    Arguments at ``nondiff_argnums`` are passed first to ``bwd`` and have no cotangent.  Forward mode is refused unless
    ``f.defjvp(rule)`` defines it (see ``custom_jvp``).
    """
    return CustomVjp(fun, _nondiff(nondiff_argnums))


@Decorator
def custom_jvp(fun: Any, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A function whose forward mode is written by hand: ``f.defjvp(rule)`` or ``f.defjvps(rule, …)``.

    ``rule(primals, tangents) -> (out, tangent)`` is linear in the tangents; reverse mode transposes it.
    Arguments at ``nondiff_argnums`` are passed first to the rule and have no tangent.
    """
    return CustomJvp(fun, _nondiff(nondiff_argnums))
