"""The cost model: an estimate of run time, made before code is written.

The unit is about one simple float operation on numbers in registers, such as an addition.  The cost of an op, for one
element of its result, is a column of the op table (``OpDef.cost``): ``EXPENSIVE`` from a division on,
``TRANSCENDENTAL`` for ``exp`` and similar functions.  From this follow:

* ``element_cost``: of an op whose elements are computed where they are read (fusion in the lowering);
* ``op_cost``: of an op and all elements of its result;
* ``formula_cost``: of an op in a formula (``algebra``);
* ``frequency``: how often a block runs (``array_sroa``);
* ``CHEAP``: ops that are recomputed rather than stored (``ad.storage``);
* ``LANES``: how many iterations of an outer loop run side by side; in a narrow version half as many.
* ``COLUMNS``: how many columns of a matrix these load at once.

Two estimates are not of time, and stay with their users: the number of scalar ops that replace an op on a small array
(``array_sroa_ops.scalar_ops``), and the test that the time of a function is bounded (``lowering.planning.run_length``).
"""

from __future__ import annotations

from math import prod

from ...ir.graph import Block, Op
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Array
from .loops import LoopForest

ASSUMED = 16
"""The assumed number of iterations of a loop, or elements of an axis, where it is not known."""
CALL = 64
"""The cost of a call, whatever it calls."""
LANES = 16
COLUMNS = 4
"""The number of iterations that run side by side as lanes of a vectorised outer loop.

``vectorise.outer_loop`` makes arrays of this many elements, and the lowering emits the loops over them as fixed-width
vectors: two of eight doubles, enough to hide the latency of one vector operation, and few enough that the values saved
for all lanes stay small.  It is also more than eight, up to which the lowering emits scalar code.

Measured when lanes were introduced, on a Gaussian mixture whose inner loops have at most ten elements: with lanes, the
value takes a quarter and the gradient half of the time.  Emitted as fixed-width vectors, instead of as loops that LLVM
has to analyse, the gradient compiles in a sixth less time and runs a tenth faster.
"""
DEEPEST = 4
"""The loop depth up to which the frequency of a block grows."""

INDEX_MAPS = frozenset("get slice reshape transpose as_type broadcast_to fill iota".split())
"""Ops of which an element is an element of the operand, a scalar, or an index."""
CHEAP = INDEX_MAPS | {"dim"} | {name for name, op in OPS.items() if op.elementwise and op.cost < EXPENSIVE}
"""Ops that cost less than a store and a load."""


def element_cost(op: Op) -> int:
    """The cost of one element that is computed where it is read; it is only found if the op maps indices."""
    return 0 if op.name in INDEX_MAPS else OPS[op.name].cost


def formula_cost(op: Op) -> int:
    """The cost of a float op in a formula: a sign goes into the next op."""
    return 0 if op.name == "neg" else OPS[op.name].cost


def op_cost(op: Op) -> int:
    """The cost of an op and all elements of its result, or of what it reads if that is more."""
    if op.name == "call":
        return CALL
    definition = OPS.get(op.name)
    if definition is None or definition.cost == 0:
        return 0
    elements = 1
    if not definition.view:
        for v in (*op.operands, *op.results):
            if isinstance(v.type, Array) and op.name not in ("set", "add_at"):
                elements = max(elements, prod(ASSUMED if d is None else d for d in v.type.dims))
    return elements * definition.cost


def frequency(forest: LoopForest, block: Block) -> int:
    """Estimated executions of a block: ``ASSUMED`` iterations for each loop around it."""
    return int(ASSUMED ** min(forest.depth(block), DEEPEST))
