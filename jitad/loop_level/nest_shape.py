"""The shape of nests: loops of which each is all that the next outer one does, and what a region reads from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir.graph import Op, Value


def perfect_nest(op: Op) -> list[Op]:
    """A ``for``, and those within it that are all of the body of the one before.

    They agree in what they carry, in their reductions and in being independent; their bounds are known outside.
    """
    loops = [op]
    while (inner := _only_loop(loops)) is not None:
        loops.append(inner)
    return loops


def _only_loop(loops: list[Op]) -> Op | None:
    """The loop that is all of the last one's body."""
    op, region = loops[-1], loops[-1].regions[0]
    if len(region.ops) != 1 or region.ops[0].name != "for":
        return None
    (inner,), ivs = region.ops, [x.regions[0].params[0] for x in loops]
    assert region.term is not None
    same = inner.operands[3:] == region.params[1:] and region.term.operands == inner.results
    same = same and all(inner.attrs.get(a) == op.attrs.get(a) for a in ("independent", "reductions"))
    return inner if same and not any(v in ivs for v in inner.operands[:3]) else None


def defined(ops: Iterable[Op]) -> Iterator[Value]:
    """The results of ops and of what their regions hold."""
    for op in ops:
        yield from op.results
        for region in op.regions:
            yield from region.params
            yield from defined(region.all_ops())


def read(ops: Iterable[Op]) -> Iterator[Value]:
    """The values that ops and their regions read."""
    for op in ops:
        yield from op.used()
        for region in op.regions:
            yield from read(region.all_ops())


def captured_by(ops: Iterable[Op], params: Iterable[Value] = ()) -> list[Value]:
    """The values that ops read and that neither they nor ``params`` define, but for constants."""
    every = list(ops)
    inside = {*params, *defined(every)}
    return [v for v in dict.fromkeys(read(every)) if v not in inside and v.const is None]
