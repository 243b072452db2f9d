"""Loops that carry something from one iteration to the next, and are for many threads all the same.

* A *scan* carries a running total, and stores what depends on it::

      for %i (%p) { %x = load %a, %i;  %t = add %p, %x;  store %t, %b, %i;  yield %t }

  No iteration accesses an element that another one stores, and ``%x`` depends on nothing that is carried.
* A *linear recurrence* carries a number that becomes ``a * p + b`` (``recurrence_of``).
* A *search* carries an extreme element and its index (the attribute ``best``).
* *Additions* to elements of an array, such as ``np.add.at``: iterations may add to one element, and do nothing else
  with it::

      for %i { %k = load %index, %i;  %x = load %b, %k;  %y = add %x, …;  store %y, %b, %k }

* *Overwriting* of elements, such as ``b[index] = values``: of the stores to one element the last one counts, and
  nothing reads them::

      for %i { %k = load %index, %i;  %x = load %a, %i;  store %x, %b, %k }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....ir.graph import Block, Op, Value
from ....ir.ops import OPS as IR_OPS
from ....ir.types import Scalar
from ....loop_level.types import buffer_type, is_buffer
from .memory import NotAdded, addition, uses_in

ROLES = ("add", "mul", "maximum", "minimum", "and", "or")
"""The ops of scans: associative, and the order of the operands does not matter."""
LEAST_ATOMIC = 32
"""Bits of the numbers that can be added atomically."""
_PLAIN = frozenset(("load", "store", "dim", "view", "reshape", "retype", "const"))


@dataclass(frozen=True)
class Scan:
    """A scan: the op that combines, its operand that is no total, and the ops that compute it; see ``compacts``."""

    total: Op
    term: Value
    ops: tuple[Op, ...]
    compacts: bool

    @property
    def role(self) -> str:
        return self.total.name


# --- scans ------------------------------------------------------------------------------------------------

def scan_of(op: Op) -> Scan | None:
    """The scan that a loop is, if it is one."""
    region = op.regions[0]
    if len(op.operands) != 4 or not isinstance(op.operands[3].type, Scalar) or not is_plain(region.ops):
        return None
    iv, carried = region.params
    assert region.term is not None
    total = region.term.operands[0].op
    if total not in region.ops or total is None or total.name not in ROLES or carried not in total.operands:
        return None
    first, second = total.operands
    term = second if first is carried else first
    if term is carried:
        return None
    ops = needed_for(region, [term])
    if any(carried in x.operands for x in ops):
        return None
    compacts = bool(op.attrs.get("compacts"))
    if compacts or stores_apart(region, iv, ops) and any(x.name == "store" for x in region.ops):
        return Scan(total, term, ops, compacts)
    return None


def is_plain(ops: Sequence[Op]) -> bool:
    """True if ops access elements and compute, and can neither fail nor allocate."""
    return all(x.name in _PLAIN or x.name in IR_OPS and IR_OPS[x.name].elementwise for x in ops)


def needed_for(region: Block, vs: Iterable[Value]) -> tuple[Op, ...]:
    """The ops of a block on which values depend, in order."""
    needed = set(vs)
    found: list[Op] = []
    for op in reversed(region.ops):
        if any(r in needed for r in op.results):
            found.append(op)
            needed.update(op.operands)
    return tuple(reversed(found))


def stores_apart(region: Block, iv: Value, before: Sequence[Op], skipped: Op | None = None) -> bool:
    """True if no iteration accesses an element that another one stores; ``before`` reads no new element.

    All accesses to one array are at the same place, one index of which is different in each iteration, or at another
    constant index.
    """
    places: dict[int, list[Value]] = {}
    for op in region.ops:
        if op.name == "store":
            alias, place = buffer_type(op.operands[1]).alias, op.operands[1:]
            if alias is None or places.setdefault(alias, place) != place or not any(
                    differs(v, iv, region) for v in place[1:]):
                return False
    stored: set[int] = set()
    for op in region.ops:
        if op.name == "store":
            alias = buffer_type(op.operands[1]).alias
            assert alias is not None
            stored.add(alias)
        elif op.name == "load" and op is not skipped:
            alias = buffer_type(op.operands[0]).alias
            if alias is not None and alias in places and _is_apart(op.operands, places[alias]):
                continue
            if alias is None or alias in places and op.operands != places[alias] or alias in stored and op in before:
                return False
    return True


def _is_apart(place: Sequence[Value], other: Sequence[Value]) -> bool:
    """True if two places in one buffer have different constants as one of their indices."""
    return place[0] is other[0] and any(x.const is not None and y.const is not None and x.const != y.const
                                        for x, y in zip(place[1:], other[1:]))


def differs(v: Value, iv: Value, region: Block) -> bool:
    """True if an index is another one in each iteration: ``± iv + c`` with a constant ``c``."""
    while v is not iv:
        op = v.op
        if op is None or op.name not in ("add", "sub", "neg", "mul") or op not in region.ops:
            return False
        if op.name == "mul":
            if not any(x.const == -1 for x in op.operands):
                return False
            v = next((x for x in op.operands if x.const != -1), v)
            continue
        moving = [x for x in op.operands if x is iv or x.op in region.ops and x.const is None]
        if len(moving) != 1:
            return False
        v = moving[0]
    return True


# --- additions --------------------------------------------------------------------------------------------

def added_by(op: Op) -> Value | None:
    """The array to whose elements a nest of loops adds, if it does nothing else but read other arrays, and check."""
    loops = in_order(op)
    region = loops[-1].regions[0]
    if any(loop.operands[3:] for loop in loops) or not is_plain([x for x in region.ops if x.name != "check"]):
        return None
    stores = [x for x in region.ops if x.name == "store"]
    arrays = {x.operands[1] for x in stores}
    if len(arrays) != 1:
        return None
    b = arrays.pop()
    t = buffer_type(b)
    if t.alias is None or t.dtype.is_bool or t.dtype.bits < LEAST_ATOMIC or b.op in region.ops:
        return None
    uses = uses_in(region.ops)
    try:
        loads = {addition(x, uses)[0] for x in stores}
    except NotAdded:
        return None
    return b if all(_reads_elsewhere(x, t.alias) for x in region.ops if x not in loads and x not in stores) else None


# --- overwriting ------------------------------------------------------------------------------------------

def overwriting(op: Op) -> Op | None:
    """The store of a nest of loops that stores to elements of one array, which it does not read."""
    loops = in_order(op)
    region = loops[-1].regions[0]
    stores = [x for x in region.ops if x.name == "store"]
    if len(stores) != 1 or any(loop.operands[3:] for loop in loops) or not is_plain(region.ops):
        return None
    store, = stores
    b = store.operands[1]
    alias = buffer_type(b).alias
    if alias is None or b.op in region.ops or not all(_reads_elsewhere(x, alias) for x in region.ops if x is not store):
        return None
    return store


def _reads_elsewhere(op: Op, alias: int) -> bool:
    return op.name == "dim" or all(buffer_type(v).alias not in (None, alias) for v in op.operands if is_buffer(v))


def in_order(op: Op) -> list[Op]:
    """A loop, and those within it that are all of the body of the one before, whose bounds are known outside."""
    loops = [op]
    while True:
        region = loops[-1].regions[0]
        (inner, *others) = region.ops or (None,)
        ivs = [x.regions[0].params[0] for x in loops]
        if inner is None or others or inner.name != "for" or any(v in ivs for v in inner.operands[:3]):
            return loops
        loops.append(inner)


