"""Functions of the standard library on user values: ``itertools``, ``operator`` and copies."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

from .lattice import rebuild
from .values import ArrayRef, DictObj, Instance, ListObj

Rule = Callable[..., Any]


# --- itertools over what is static -------------------------------------------------------------------

_ARRANGING = (itertools.chain, itertools.product, itertools.permutations, itertools.combinations, itertools.islice,
              itertools.combinations_with_replacement, itertools.pairwise, itertools.zip_longest)


def _written_out(fun: Callable[..., Any]) -> Rule:
    """A function that arranges elements without looking at them: done while tracing."""
    def rule(t: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        columns = [a if isinstance(a, int) or a is None else t.iterate(a) for a in args]
        return tuple(fun(*columns, **kwargs))
    return rule


def _accumulate(t: Any, v: Any, func: Any = operator.add, *, initial: Any = None) -> tuple[Any, ...]:
    items = [*([] if initial is None else [initial]), *t.iterate(v)]
    return tuple(itertools.accumulate(items, lambda a, b: t.call(func, a, b)))


def _starmap(t: Any, fun: Any, v: Any) -> tuple[Any, ...]:
    return tuple([t.call(fun, *t.iterate(x)) for x in t.iterate(v)])


def _chain_of(t: Any, v: Any) -> tuple[Any, ...]:
    return tuple([y for x in t.iterate(v) for y in t.iterate(x)])


def _repeat(t: Any, v: Any, times: Any = None) -> tuple[Any, ...]:
    if not isinstance(times, int):
        t.unsupported("`itertools.repeat` without a number of times that is known while tracing", "a loop")
    return (v,) * times


# --- operator ---------------------------------------------------------------------------------------

_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "floordiv": "floordiv", "mod": "mod",
           "pow": "pow", "matmul": "matmul", "and_": "and", "or_": "or", "xor": "xor", "lshift": "lshift",
           "rshift": "rshift"}
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "is_": "is", "is_not": "is not"}
_UNARY = {"neg": "neg", "pos": "pos", "invert": "invert"}


def _asks(method: str, op: str) -> Rule:
    return lambda t, *xs: getattr(t, method)(op, *xs)


# --- copies ---------------------------------------------------------------------------

def _copied(t: Any, v: Any, part: Callable[[Any, Any], Any]) -> Any:
    """A new object with the parts of ``v``, each as ``part`` makes it."""
    if isinstance(v, ArrayRef):
        return t.call(t.getattr(v, "copy"))
    if isinstance(v, ListObj):
        return t.new_list([part(t, x) for x in t.contents(v)])
    if isinstance(v, DictObj):
        return t.new_dict({k: part(t, x) for k, x in t.contents(v).items()})
    if isinstance(v, Instance):
        return _instance(t, v.cls, {k: part(t, x) for k, x in t.contents(v).items()})
    return rebuild(v, tuple([part(t, x) for x in v])) if isinstance(v, tuple) else v


def _instance(t: Any, cls: type, content: dict[str, Any]) -> Instance:
    made = Instance(cls)
    t.state[made] = content
    return made


def _deepcopy(t: Any, v: Any) -> Any:
    return _copied(t, v, _deepcopy)


TABLE: dict[Any, Rule] = {
    **{fun: _written_out(fun) for fun in _ARRANGING},
    itertools.accumulate: _accumulate, itertools.starmap: _starmap, itertools.repeat: _repeat,
    itertools.chain.from_iterable: _chain_of,
    **{getattr(operator, name): _asks("binary", op) for name, op in _BINARY.items()},
    **{getattr(operator, name): _asks("compare", op) for name, op in _COMPARE.items()},
    **{getattr(operator, name): _asks("unary", op) for name, op in _UNARY.items()},
    operator.not_: lambda t, x: t.not_(x), operator.truth: lambda t, x: t.truth(x),
    operator.getitem: lambda t, x, i: t.getitem(x, i), operator.contains: lambda t, xs, x: t.compare("in", x, xs),
    copy.copy: lambda t, x: _copied(t, x, lambda t, part: part), copy.deepcopy: _deepcopy,
    functools.wraps: lambda t, *args, **kwargs: lambda fun: fun,      # names and documentation have no use here
    functools.update_wrapper: lambda t, wrapper, *args, **kwargs: wrapper,
}
