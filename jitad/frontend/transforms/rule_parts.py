"""The parts of a function with a rule, as traced functions: ``run(step, custom, fixed, args)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..values.protocol import Trace
from .derivative_call import FLATTEN


class Step:
    """Calls a part of ``custom``; ``static`` are the positions of the differentiated arguments."""

    def __init__(self, where: tuple[int, ...]) -> None:
        self.static = where

    def parts(self) -> tuple[Any, ...]:
        return ()

    def with_parts(self, parts: tuple[Any, ...]) -> Step:
        return self

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        custom, fixed, rest = args
        return FLATTEN.traced_call(t, (self.call(t, custom, fixed, rest),), {})

    @staticmethod
    def function(custom: Any) -> Any:
        """The function of ``custom`` that this part calls."""
        raise NotImplementedError

    def call(self, t: Trace, custom: Any, fixed: tuple[Any, ...], rest: tuple[Any, ...]) -> Any:
        return t.call(self.function(custom), *self.merged(fixed, rest))

    def merged(self, fixed: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
        """All arguments in their original order."""
        left, given = iter(fixed), dict(zip(self.static, rest))
        return [given[i] if i in given else next(left) for i in range(len(fixed) + len(rest))]


class Primal(Step):
    @staticmethod
    def function(custom: Any) -> Any:
        return custom.fun


class Forward(Step):
    @staticmethod
    def function(custom: Any) -> Any:
        return custom.rules[0]


class Backward(Step):
    """The rule with the arguments (residuals, cotangent)."""

    @staticmethod
    def function(custom: Any) -> Any:
        return custom.rules[1]

    def call(self, t: Trace, custom: Any, fixed: tuple[Any, ...], rest: tuple[Any, ...]) -> Any:
        return t.call(self.function(custom), *fixed, *rest)


class Tangent(Backward):
    """The rule with the arguments (primals, tangents)."""

    @staticmethod
    def function(custom: Any) -> Any:
        return custom.rules[-1]
