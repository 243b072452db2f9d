"""Parameters of a join that are the same wherever both are defined are one.

Behind a ``break`` the latch passes a value to the exit and nothing to the head, and the other way round::

    ^stop: jump ^latch(undef, %x)                         ^stop: jump ^latch(%x)
    ^on:   jump ^latch(%x, undef)          becomes        ^on:   jump ^latch(%x)
    ^latch(%carried, %left): …                            ^latch(%carried): …
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dominance import dominators
from ...ir.graph import Function, Value
from ...ir.types import Scalar
from ..analysis.cfg import substitute

Arguments = Sequence[Value | None]
"""What edges pass for a parameter: ``None`` for the result of a call."""


def merge_undefined(func: Function) -> None:
    """Merge such scalars, of which the first in order stays.

    Arrays stay: one may be written in place where the other is not defined, but named.
    """
    dom, mapping = dominators(func), dict[Value, Value]()
    for block in dom.order:
        edges = [*dom.incoming(block)]
        passed = {p: [e.argument(p) for e in edges] for p in block.params} if len(edges) > 1 else {}
        left = [p for p, given in passed.items()
                if isinstance(p.type, Scalar) and any(map(is_undefined, given)) and None not in given]
        for v in left:
            for u in block.params:
                if u is not v and u not in mapping and u.type == v.type and agree(passed[u], passed[v]):
                    mapping[v], passed[u] = u, merged_arguments(passed[u], passed[v])
                    for edge, a in zip(edges, passed[u]):
                        if a is not None:
                            edge.args[u.index - edge.offset] = a
                    break
    substitute(func, mapping)


def agree(x: Arguments, y: Arguments) -> bool:
    return all(a is b or is_undefined(a) or is_undefined(b) for a, b in zip(x, y))


def merged_arguments(x: Arguments, y: Arguments) -> list[Value | None]:
    return [b if is_undefined(a) else a for a, b in zip(x, y)]


def is_undefined(v: Value | None) -> bool:
    return v is not None and v.undefined


