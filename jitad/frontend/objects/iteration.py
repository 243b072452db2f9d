"""Iteration: static structures are unrolled element by element, ranges and arrays are indexed by a counter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...ir.types import Array
from ..values import lattice
from ..values.active import Active
from ..values.closures import Enumerate, Mapped, Range, Reversed, Stream, Template, Unrolled, View, Zip
from ..values.protocol import Trace
from ..values.values import ArrayRef, DictObj, ListObj, Slot, Sym
from . import special_methods

UNKNOWN_LENGTH = (
    "makes a list or tuple of a length that is only known at run time",
    "make an array, `out = np.zeros(n)`, and assign `out[i] = x` in a loop; or name the bound in `jit(static=…)`")
STREAMS = "make a list of it first, `list(...)`, or make it anew where it is walked"


def stream(t: Trace, kind: type[Stream], *given: Any) -> Stream:
    """A ``zip``, ``map`` or similar object over ``given``, not yet iterated."""
    begun = Slot("begun", bound=True)
    t.state[begun] = False
    return kind(*given, begun)


def begin(t: Trace, v: Any) -> Any:
    """Starts iterating over a value; a stream that is exhausted yields an empty tuple."""
    if isinstance(v, Unrolled):
        return Unrolled(begin(t, v.parts()[0]))
    if not isinstance(v, Stream) or v.parts()[-1] is None:
        return v
    begun = t.state.get(v.parts()[-1])
    if begun is True:
        return ()
    if begun is not False:
        t.unsupported(f"walks {lattice.describe(v)} that may have been walked before, depending on the path", STREAMS)
    t.state[v.parts()[-1]] = None
    return v.with_parts((*(begin(t, x) for x in v.given), None))


def ends_with(v: Any) -> Iterator[Slot]:
    """The ``begun`` variables of all streams that are exhausted together with ``v``.

    They hold ``False`` (not begun), ``True`` (exhausted) or ``None`` (iterated in part).  Of several columns of ``zip``
    or ``map``, it is not known which one ends first, so none is included.
    """
    if isinstance(v, Unrolled):
        yield from ends_with(v.parts()[0])
    elif hasattr(v, "clauses"):
        yield v.begun
        yield from ends_with(v.over)
    elif isinstance(v, Stream) and v.parts()[-1] is not None:
        yield v.parts()[-1]
        columns = v.given[1:] if isinstance(v, Mapped) else v.given[:1] if isinstance(v, Enumerate) else v.given
        if len(columns) == 1:
            yield from ends_with(columns[0])


def mark(state: dict[Any, Any], v: Any, walked: bool | None) -> None:
    """Records that a stream is exhausted (True) or has been iterated in part (None)."""
    for begun in ends_with(v):
        state[begun] = walked


def seen(t: Trace, v: View) -> list[Any]:
    """The current elements of a dictionary view."""
    content = t.contents(v.parts()[0])
    return list(getattr(content, v.kind)())


def static_items(t: Trace, v: Any) -> Any:
    """The elements if the structure is static; None if it takes a loop at run time."""
    if is_counted(v):
        return None
    v = special_methods.walked(t, v)
    if special_methods.is_iterator(v):
        return list(special_methods.left(t, v))
    if isinstance(v, Zip):
        return _zip(t, v)
    if isinstance(v, Enumerate):
        return [(t.binary("add", v.given[1], i), x) for i, x in enumerate(static_items(t, v.given[0]))]
    if isinstance(v, Reversed):
        return static_items(t, v.given[0])[::-1]
    if isinstance(v, Mapped):
        return [t.call(v.given[0], *row) for row in _zip(t, Zip(*v.given[1:], None))]
    return written_out(t, v)


def item_now(t: Trace, v: Any, known: Sequence[Any], k: int) -> Any:
    """Element ``k`` of the object that an unrolled loop iterates over, read at the start of that iteration."""
    if isinstance(v, ListObj):
        return t.contents(v)[k]
    if isinstance(v, View):
        return seen(t, v)[k]
    return special_methods.take(t, v, 1)[0] if special_methods.is_iterator(v) else known[k]


def _zip(t: Trace, v: Zip) -> Any:
    columns = [static_items(t, p) for p in v.given]
    shortest = min((len(c) for c in columns if c is not None), default=0)
    out = []
    for c, p in zip(columns, v.given):
        if c is None:
            n = known_count(t, p)
            if n is None:
                return t.unsupported("zip of a list or tuple with something whose length is only known at run time",
                                     "make both arrays")
            shortest = min(n, shortest)
            c = list(p) if isinstance(p, range) else [element(t, p, t.sym(i)) for i in range(shortest)]
        out.append(c)
    return [tuple(c[i] for c in out) for i in range(shortest)]


def partly_counted(t: Trace, v: Any) -> bool:
    """True if ``v`` combines structures of known length with others of a length that is only known at run time."""
    if isinstance(v, Enumerate):
        return partly_counted(t, v.given[0])
    if not isinstance(v, Zip | Mapped) or is_counted(v):
        return False
    columns = v.given if isinstance(v, Zip) else v.given[1:]
    return any(ends_at_run_time(t, x) for x in columns)


def ends_at_run_time(t: Trace, v: Any) -> bool:
    """True if the number of elements is only known at run time."""
    return known_count(t, v) is None if is_counted(v) else partly_counted(t, v)


def bounds(t: Trace, v: Any) -> tuple[int, list[Any]]:
    """The number of elements of a partly counted value, at most: an int, and the counts that are run-time values."""
    if is_counted(v):
        known = known_count(t, v)
        return (LARGEST, [count(t, v)]) if known is None else (known, [])
    if isinstance(v, Enumerate):
        return bounds(t, v.given[0])
    if isinstance(v, Zip | Mapped):
        found = [bounds(t, x) for x in (v.given if isinstance(v, Zip) else v.given[1:])]
        return min(most for most, _ in found), [n for _, counts in found for n in counts]
    return length(t, v), []


def item_of(t: Trace, v: Any, k: int) -> Any:
    """Element ``k`` of a partly counted value, which must be in range."""
    if is_counted(v):
        return v[k] if isinstance(v, range) else element(t, v, t.sym(k))
    if isinstance(v, Enumerate):
        return t.binary("add", v.given[1], k), item_of(t, v.given[0], k)
    if isinstance(v, Zip):
        return tuple(item_of(t, x, k) for x in v.given)
    if isinstance(v, Mapped):
        return t.call(v.given[0], *(item_of(t, x, k) for x in v.given[1:]))
    found = static_items(t, v)
    assert found is not None
    return found[k]


def known_count(t: Trace, v: Any) -> int | None:
    """The trip count if it is known while tracing, otherwise None."""
    n = count(t, v)
    return n if isinstance(n, int) else n.value.const


def written_out(t: Trace, v: Any) -> list[Any]:
    """All elements of a structure whose length is known while tracing, including ranges and arrays."""
    found = _written_out(t, v)
    mark(t.state, v, True)
    return found


def unpacked(t: Trace, v: Any, n: int | None) -> list[Any]:
    """The elements of a value, of which there must be ``n``; a number that is not known is checked at run time."""
    walked = v.over if hasattr(v, "clauses") else v
    if n is None or t.walked_choice(walked) is not None or not is_counted(walked) or \
            known_count(t, walked) is not None:
        return t.iterate(v)
    found = v.exactly(n) if hasattr(v, "clauses") else list(exactly(t, v, n))
    mark(t.state, v, True)
    return found


def exactly(t: Trace, v: Any, n: int) -> Iterator[Any]:
    """The elements that must be ``n``: as in Python one is evaluated after the other until one is missing."""
    v = begin(t, v)
    if not is_counted(v):                               # exhausted
        yield from t.iterate(v)
        return
    size = t.value(count(t, v))
    for i in range(n):
        t.check(t.builder.gt(size, i), "ValueError", f"not enough values to unpack (expected {n}, got {{}})", size)
        yield element(t, v, t.sym(i))
    t.check(t.builder.le(size, n), "ValueError", f"too many values to unpack (expected {n})")


def some_of(t: Trace, v: Any, by: str) -> Sequence[Any]:
    """All elements, for a consumer that may stop early; an iterator cannot be resumed afterwards."""
    if special_methods.is_iterator(v):
        return special_methods.take_all(t, v, by)
    found = t.iterate(v)
    mark(t.state, v, None)
    return found


def _written_out(t: Trace, v: Any) -> list[Any]:
    v = begin(t, special_methods.walked(t, v))
    if special_methods.is_iterator(v):
        return list(special_methods.take(t, v, len(special_methods.left(t, v))))
    if isinstance(v, ListObj):
        return list(t.contents(v))
    if isinstance(v, DictObj):
        return list(t.contents(v))
    if isinstance(v, View):
        return seen(t, v)
    if isinstance(v, Unrolled):
        v = v.parts()[0]
    if is_counted(v):
        if isinstance(v, range):
            return list(v)
        n = known_count(t, v)
        if n is None:
            return t.unsupported(*UNKNOWN_LENGTH)
        return [element(t, v, t.sym(i)) for i in range(n)]
    if isinstance(v, (Zip, Enumerate, Reversed, Mapped)):
        found: list[Any] | None = static_items(t, v)
        assert found is not None
        return found
    if hasattr(v, "items") and hasattr(v, "clauses"):
        items: list[Any] = v.items()
        return items
    if isinstance(v, Template):
        v.refused(t, "the elements of")
    if isinstance(v, (Sym, Active)) or v is None:
        raise TypeError(f"{lattice.describe(v)} is not iterable")
    if hasattr(v, "__next__"):
        return t.unsupported(f"iterates over {lattice.describe(v)}, which would be used up while compiling",
                             "pass a list or a tuple")
    return [t.lift(x) for x in v]


def is_counted(v: Any) -> bool:
    """True if iterating over ``v`` takes a loop at run time; reads no elements."""
    if isinstance(v, Zip | Mapped):
        columns = v.given if isinstance(v, Zip) else v.given[1:]
        return bool(columns) and all(map(is_counted, columns))
    if isinstance(v, Enumerate | Reversed):
        return is_counted(v.given[0])
    return isinstance(v, range | Range | ArrayRef) or _counts_itself(v)


def length(t: Trace, v: Any) -> Any:
    """The number of elements, without evaluating those of a stream."""
    if is_counted(v):
        return count(t, v)
    if isinstance(v, Zip | Mapped):
        return min((length(t, x) for x in (v.given if isinstance(v, Zip) else v.given[1:])), default=0)
    if isinstance(v, Enumerate | Reversed):
        return length(t, v.given[0])
    return len(written_out(t, v))


def _counts_itself(v: Any) -> bool:
    return isinstance(v, Active) and v.counted


# --- loops at run time ------------------------------------------------------------------------------

def count(t: Trace, v: Any) -> Any:
    """The trip count: an int, or an i64 ``Sym`` that is not negative."""
    return v.count(t) if isinstance(v, Active) else _COUNT[type(v)](t, v)


def _range_count(t: Trace, v: Range) -> Any:
    start, stop, step = v.parts()
    if isinstance(step, Sym):
        t.check(t.compare("ne", step, 0), "ValueError", "range() arg 3 must not be zero")
        up = _steps(t, start, stop, step, 1)
        down = _steps(t, stop, start, t.unary("neg", Sym(t.builder.maximum(t.value(step), -LARGEST), True)), 1)
        positive = t.value(t.compare("gt", step, 0))
        return Sym(t.builder.select(positive, t.value(up), t.value(down)), True)
    if step == 0:
        t.raise_("ValueError", "range() arg 3 must not be zero")
    return _steps(t, start, stop, step, 1) if step > 0 else _steps(t, stop, start, -step, 1)


def _steps(t: Trace, low: Any, high: Any, step: Any, least: int) -> Any:
    """The number of steps from ``low`` up to ``high``, at least 0."""
    b, distance = t.builder, t.value(t.binary("sub", high, low))
    if isinstance(step, int) and step == 1:
        return Sym(distance if _is_size(distance) else b.maximum(distance, 0), True)
    by = b.maximum(t.value(step), least)
    if by.const is None or by.const > LARGE_STEP:           # the sum below may overflow
        forward = t.value(t.compare("lt", low, high))
        last = b.floordiv(b.sub(b.select(forward, distance, 0), 1), by)
        return Sym(b.maximum(b.add(last, 1), 0), True)
    return Sym(b.maximum(b.floordiv(b.add(distance, b.sub(by, 1)), by), 0), True)


LARGEST = 2**63 - 1
LARGE_STEP = 2**31


def _is_size(v: Any) -> bool:
    return v.op is not None and (v.op.name == "dim" or (v.op.name == "const" and v.const >= 0))


def _array_count(t: Trace, v: ArrayRef) -> Any:
    a = t.read(v)
    assert isinstance(a.type, Array)
    return Sym(t.builder.dim(a.value, axis=0), True)


def _least(t: Trace, counts: list[Any]) -> Any:
    first = t.value(counts[0])
    for c in counts[1:]:
        other = t.value(c)
        first = first if first is other else t.builder.minimum(first, other)
    return Sym(first, True)


_COUNT: dict[type, Callable[[Any, Any], Any]] = {
    range: lambda t, v: len(v),
    Range: _range_count,
    ArrayRef: _array_count,
    Zip: lambda t, v: _least(t, [count(t, p) for p in v.given]),
    Enumerate: lambda t, v: count(t, v.given[0]),
    Reversed: lambda t, v: count(t, v.given[0]),
    Mapped: lambda t, v: _least(t, [count(t, p) for p in v.given[1:]]),
}


def element(t: Trace, v: Any, it: Sym) -> Any:
    """Element number ``it``, which must be in range."""
    return v.element(t, it) if isinstance(v, Active) else _ELEMENT[type(v)](t, v, it)


def _range_element(t: Trace, v: Any, it: Sym) -> Any:
    start, step = (v.start, v.step) if isinstance(v, range) else (v.parts()[0], v.parts()[2])
    return t.binary("add", t.binary("mul", it, step), start)


def range_item(t: Trace, v: Any, index: Any) -> Any:
    """``range(…)[index]``, where the range or the index is a run-time value."""
    if not lattice.is_scalar(index) or lattice.scalar_type(index)[0].is_float:
        return t.unsupported(f"indexes a range by {lattice.describe(index)}", "an integer")
    n = count(t, v)
    it = t.choose_value(t.truth(t.compare("lt", index, 0)), t.binary("add", index, n), index)
    t.check(t.both("and", t.truth(t.compare("ge", it, 0)), t.truth(t.compare("lt", it, n))), "IndexError",
            "range object index out of range")
    return _range_element(t, v, t.sym(it))


def range_contains(t: Trace, v: Any, x: Any) -> Any:
    """``x in range(…)`` for a number."""
    start, step = (v.start, v.step) if isinstance(v, range) else (v.parts()[0], v.parts()[2])
    steps = t.binary("floordiv", t.binary("sub", x, start), step)
    met = t.truth(t.compare("eq", t.binary("add", t.binary("mul", steps, step), start), x))
    inside = t.both("and", t.truth(t.compare("ge", steps, 0)), t.truth(t.compare("lt", steps, count(t, v))))
    return t.both("and", met, inside)


def _reversed_element(t: Trace, v: Reversed, it: Sym) -> Any:
    inner = v.given[0]
    last = t.binary("sub", count(t, inner), 1)
    return element(t, inner, t.sym(t.binary("sub", last, it)))


_ELEMENT: dict[type, Callable[[Any, Any, Sym], Any]] = {
    range: _range_element,
    Range: _range_element,
    ArrayRef: lambda t, v, it: t.element(v, it),
    Zip: lambda t, v, it: tuple(element(t, p, it) for p in v.given),
    Enumerate: lambda t, v, it: (t.binary("add", it, v.given[1]), element(t, v.given[0], it)),
    Reversed: _reversed_element,
    Mapped: lambda t, v, it: t.call(v.given[0], *(element(t, p, it) for p in v.given[1:])),
}
