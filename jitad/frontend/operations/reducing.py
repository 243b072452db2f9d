"""``sum``, ``min``, ``max``, ``any``, ``all``, ``math.prod`` and ``math.fsum``.

They reduce generator expressions, streams (``map``, ``zip``, …), ranges, structures and arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import table
from ..arrays.library.scalar import exact_sums
from ..flow import branches
from ..objects import containers, growing_lists, iteration, special_methods
from ..objects.long_lists import LongList
from ..syntax.comprehensions import Generator, elements
from ..values import purity
from ..values.closures import WALKS, Range, Stream, Unrolled, View
from ..values.lattice import UNBOUND, is_scalar
from ..values.protocol import Trace
from ..values.values import ArrayRef, DictObj, Instance, Maybe, Slot

Rule = Callable[..., Any]
MOST_WRITTEN_OUT = 64                   # longer streams of known length are reduced in a loop
COUNTED = (Stream, Range, range, ArrayRef, LongList)


def _reduction(name: Any, on_generator: Rule) -> Rule:
    one = name not in (min, max)

    def rule(t: Trace, *args: Any, **kwargs: Any) -> Any:
        if args and purity.is_iterator(args[0]):
            t.iterate(args[0])                                       # refuses: tracing would exhaust it
        if args and _is_walked(args, one) and isinstance(args[0], Instance):
            found = special_methods.walked(t, args[0])
            args = (t.settled_list(found.of) if isinstance(found, growing_lists.Walked) else found, *args[1:])
        if args and (one or len(args) == 1):
            c = t.walked_choice(args[0]) if isinstance(args[0], WALKS) else None
            if c is not None:
                return t.over(c, lambda x: rule(t, t.settled(args[0]), *args[1:], **kwargs))
            walked = (Stream, Range, LongList) if "key" not in kwargs else COUNTED
            if isinstance(args[0], walked) and _takes_a_loop(t, args[0]):
                args = (elements(t, args[0]), *args[1:])
        if args and isinstance(args[0], Generator):
            return on_generator(t, *args, **kwargs)
        if args and _is_walked(args, one):
            items = tuple(t.iterate(args[0]))
            if name in (any, all):
                iteration.mark(t.state, args[0], None)           # it is not known where they stop
            args = (items, *args[1:])
        elif "key" not in kwargs and all(_is_constant(t, a) for a in (*args, *kwargs.values())):
            return t.native(name, *args, **kwargs)
        if name in (min, max) and args and ("key" in kwargs or not _are_numbers(t, args)):
            return _by_key(t, name, *args, **kwargs)
        if name is sum and not isinstance(args[0], ArrayRef):
            return functools.reduce(lambda a, b: t.binary("add", a, b), t.iterate(args[0]),
                                    args[1] if len(args) > 1 else kwargs.get("start", 0))
        return t.apply_rule(table.TABLE[name], *args, **kwargs)
    return rule


def _is_constant(t: Trace, v: Any) -> bool:
    """True if Python may reduce the value while tracing.

    Captured arrays are read only when the compiled code runs, and methods of the user's classes are traced.
    """
    if isinstance(v, (list, tuple)):
        return all(_is_constant(t, x) for x in v)
    return containers.is_static(v) and not isinstance(v, np.ndarray) and not special_methods.compares_itself(
        t, v, "__lt__", "__gt__", "__add__", "__radd__", "__mul__", "__rmul__", "__bool__", "__len__")


def _takes_a_loop(t: Trace, v: Any) -> bool:
    """True if ``v`` is reduced in a loop: its length is unknown or too large to unroll."""
    if not iteration.is_counted(v):
        return iteration.partly_counted(t, v)
    n = iteration.known_count(t, v)
    return n is None or n > MOST_WRITTEN_OUT


def _is_walked(args: Sequence[Any], one: bool) -> bool:
    """True if the elements of the first argument are reduced, one by one."""
    if isinstance(args[0], Instance):
        return one or len(args) == 1
    return isinstance(args[0], (range, Range, Stream, View, Unrolled, DictObj))


def _are_numbers(t: Trace, args: Sequence[Any]) -> bool:
    """True if ``min`` or ``max`` compares numbers, or the elements of an array."""
    if len(args) == 1:
        return isinstance(args[0], ArrayRef) or all(map(is_scalar, t.iterate(args[0])))
    return all(is_scalar(x) or isinstance(x, ArrayRef) for x in args)


def _by_key(t: Trace, name: Any, *args: Any, key: Any = None, **kwargs: Any) -> Any:
    """``min`` and ``max`` of any values that can be compared, with an optional key."""
    items = list(args) if len(args) > 1 else t.iterate(args[0])
    if not items:
        return t.native(name, (), **kwargs)
    keys = [x if key is None else t.call(key, x) for x in items]
    best = items[0], keys[0]
    for one in zip(items[1:], keys[1:]):
        best = t.choose_value(t.truth(t.compare("lt" if name is min else "gt", one[1], best[1])), one, best)
    return best[0]


def _accumulate(t: Trace, g: Generator, start: Any, combine: Callable[[Any, Any], Any]) -> Any:
    acc = Slot("accumulator")
    t.state[acc] = start
    g.each(acc, lambda element: t.keep(acc, combine(t.load(acc), element())))
    return t.load(acc)


def _sum_generator(t: Trace, g: Generator, start: Any = 0) -> Any:
    return _accumulate(t, g, start, lambda a, x: t.binary("add", a, x))


def _product_generator(t: Trace, g: Generator, *, start: Any = 1) -> Any:
    return _accumulate(t, g, start, lambda a, x: t.binary("mul", a, x))


def _float_sum(t: Trace, items: Any) -> Any:
    """``math.fsum``, which the library has in Python; elements of a structure become an array, for one loop."""
    if isinstance(items, (Stream, Range, LongList)) and _takes_a_loop(t, items):
        items = elements(t, items)
    if isinstance(items, Generator):
        partials, start = t.call(exact_sums.no_partials)
        so_far = _accumulate(
            t, items, start, lambda a, x: t.call(exact_sums.added_exactly, partials, a, t.call(float, x)))
        return t.call(exact_sums.added_up, partials, so_far)
    if containers.is_static(items) and not purity.is_iterator(items):
        return t.native(math.fsum, items)
    if not isinstance(items, ArrayRef):
        items = t.iterate(items)
        if not items:
            return 0.0
        items = t.apply_rule(table.TABLE[np.array], tuple(items), np.float64)
    return t.call(exact_sums.fsum, items)


def _decided(stop: bool) -> Rule:
    """The rule of ``any`` (``stop`` is True) and ``all``: stops at the element that decides."""
    def rule(t: Trace, g: Generator) -> Any:
        acc = Slot("accumulator")
        t.state[acc] = not stop

        def visit(element: Callable[[], Any]) -> None:
            so_far = t.load(acc)
            if isinstance(so_far, bool):
                t.keep(acc, so_far if so_far is stop else t.truth(element()))
            else:
                t.keep(acc, branches.logical(g.f, so_far, lambda: t.truth(element()), stop, g.loc))
        g.each(acc, visit, until=stop)
        return t.load(acc)
    return rule


def _message_of_empty(fun: Callable[..., Any]) -> str:
    """The message of this Python version for ``min(())``."""
    try:
        fun(())
    except ValueError as e:
        return str(e)
    return ""


EMPTY = {"lt": _message_of_empty(min), "gt": _message_of_empty(max)}


def _extreme_generator(op: str) -> Rule:
    fun = min if op == "lt" else max

    def rule(t: Trace, g: Generator, *, key: Any = None, **kwargs: Any) -> Any:
        if key is not None and not _takes_a_loop(t, g.over):
            return _by_key(t, fun, tuple(t.iterate(g)), key=key, **kwargs)
        best = _extreme(t, g, op, key)
        if best is UNBOUND:
            return t.native(fun, (), **kwargs)
        if isinstance(best, Maybe) and "default" in kwargs and best.flag is not True:
            found = best
            return t.choose(best.flag, lambda: _chosen(found.value, key), lambda: kwargs["default"])
        if isinstance(best, Maybe):
            t.check(best.flag, "ValueError", EMPTY[op])
            best = best.value
        return _chosen(best, key)
    return rule


def _chosen(best: Any, key: Any) -> Any:
    """The element of a result of ``_extreme``, without its key."""
    return best if key is None else best[1]


def _extreme(t: Trace, g: Generator, op: str, key: Any) -> Any:
    """The least or greatest element, with its key if there is one.

    Returns a ``Maybe`` if there may be no element, and ``UNBOUND`` if there is none.
    """
    acc = Slot("accumulator")

    def better(x: Any, best: Any) -> Any:
        ranked = (x, best) if key is None else (x[0], best[0])
        return t.choose_value(t.truth(t.compare(op, *ranked)), x, best)

    def visit(element: Callable[[], Any]) -> None:
        x = element()
        if key is not None:
            x = t.call(key, x), x
        best = t.state.get(acc, UNBOUND)
        if best is UNBOUND:
            t.state[acc] = x
        elif isinstance(best, Maybe) and best.flag is not True:
            t.keep(acc, t.choose(best.flag, lambda: better(x, best.value), lambda: x))
        else:
            t.keep(acc, better(x, best.value if isinstance(best, Maybe) else best))
    g.each(acc, visit)
    return t.state.get(acc, UNBOUND)


def _from_iterator(t: Trace, iterable: Any, dtype: Any, count: Any = -1) -> Any:
    """``np.fromiter``: an array of the iterable's length, filled in a loop; conditions leave only its first part."""
    g = elements(t, iterable) if isinstance(iterable, COUNTED) else iterable
    if not isinstance(g, Generator) or not iteration.is_counted(g.over):
        items = list(t.iterate(g))
        return _first(t, t.call(np.array, t.new_list(items), dtype), len(items), count)
    if len(g.clauses.items) > 1:
        t.unsupported("`np.fromiter` of nested loops", "make the array before, and assign to its elements in the loops")
    out, place = t.call(np.empty, iteration.count(t, g.over), dtype), Slot("place")
    t.state[place] = 0

    def visit(element: Callable[[], Any]) -> None:
        t.setitem(out, t.load(place), element())
        t.keep(place, t.binary("add", t.load(place), 1))
    g.each(place, visit)
    return _first(t, out, t.load(place), count)


def _first(t: Trace, out: Any, n: Any, count: Any) -> Any:
    """The first ``count`` of ``n`` elements; all if ``count`` is -1."""
    return t.getitem(out, slice(None, t.call(exact_sums.counted, n, count)))


TABLE: dict[Any, Rule] = {
    np.fromiter: _from_iterator,
    sum: _reduction(sum, _sum_generator), any: _reduction(any, _decided(True)), all: _reduction(all, _decided(False)),
    min: _reduction(min, _extreme_generator("lt")), max: _reduction(max, _extreme_generator("gt")),
    math.prod: _reduction(math.prod, _product_generator), math.fsum: _float_sum,
}
