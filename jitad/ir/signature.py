"""The types of a function by name, whether the function exists or is still to be derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .graph import Derived, Module
from .types import STACK, Array, Stack, Type, carries_adjoint, is_float


@dataclass(frozen=True)
class Signature:
    params: tuple[Type, ...]
    results: tuple[Type, ...]
    own: frozenset[int] = frozenset()

    def accumulated(self, wrt: Sequence[int]) -> tuple[int, ...]:
        """The parameters among ``wrt`` for which a reverse sweep takes an accumulator.

        These are arrays that the function does not consume.  A consumed array has no use after the call, so its adjoint
        starts there.
        """
        return tuple(i for i in wrt if isinstance(self.params[i], Array) and i not in self.own)


def signature(module: Module, name: str) -> Signature | None:
    """The signature of ``@name``, or None if the module neither has nor derives it."""
    func = module.functions.get(name)
    if func is not None:
        return Signature(tuple(func.param_types), tuple(func.result_types), frozenset(func.own))
    outside = module.external.get(name)
    if outside is not None:
        return Signature(outside.params, outside.results, outside.own)
    derived = module.derived.get(name)
    if derived is None or derived.base == name:
        return None
    base = signature(module, derived.base)
    return None if base is None else _derived(base, derived)


def _derived(base: Signature, d: Derived) -> Signature | None:
    """The signature of a derivative, as ``graph.Derived`` defines it; None if ``wrt`` is out of range."""
    if any(not 0 <= i < len(base.params) for i in d.wrt):
        return None
    wrt = tuple(base.params[i] for i in d.wrt)
    seeds = tuple(t for t in base.results if carries_adjoint(t))
    if d.kind == "vjp":
        return Signature(base.params + seeds, base.results + wrt, base.own)
    if d.kind == "fwd":
        return Signature(base.params, (*base.results, STACK), base.own)
    if d.kind == "keep":
        return Signature(base.params, (STACK,), base.own)
    if d.kind == "bwd":
        primals = tuple(t for i, t in enumerate(base.params) if i not in base.own and not isinstance(t, Stack))
        accumulators = tuple(base.params[i] for i in base.accumulated(d.wrt))
        first = len(primals) + len(seeds)
        own = frozenset(range(first, first + len(accumulators)))
        return Signature((*primals, *seeds, *accumulators, STACK), wrt, own)
    tangents = tuple(t for t in base.results if is_float(t))
    varied = [i for i in d.wrt if is_float(base.params[i])]
    own = base.own | {len(base.params) + k for k, i in enumerate(varied) if i in base.own}
    return Signature(base.params + tuple(base.params[i] for i in varied), base.results + tangents, own)
