"""Lowers one IR function to one LLVM function.

``FunctionBuilder`` holds the state and the helpers for writing code.  Scalar ops are lines of ``ops.py``; ops with an
array among operands or results are lowered by ``loops/array_ops.py``; ``control.py`` lowers terminators,
``arena.py`` allocation, ``tape.py`` push and pop.

::

    define internal { i32, results… } @"python.NAME"(ptr noalias %ctx, parts of the parameters…)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.aliasing.alias_classes import is_array
from ...ir.graph import Function, Op, Value
from ...ir.ops import ELEMENTWISE
from ...ir.types import Array, dtype_of
from ..builder.function_builder import Body, FunctionBuilder
from ..builder.module_builder import ModuleBuilder
from ..llvm import types
from ..llvm.emit import global_name, symbol
from ..llvm.types import Buffer
from ..loops.array_ops import ArrayOps
from ..math import casts, ops, selection
from ..memory import arena, loop_buffers, tape
from ..planning.deferred_casts import deferred_casts, index_casts
from ..planning.fma_control import carried_sums, repeated_products
from ..planning.index_tests import index_tests
from ..planning.one_of_two import one_of_two
from ..planning.recurrences import products_beside, recurrences
from ..planning.row_accesses import accesses_rows
from ..planning.shared_conditions import shared_conditions
from ..planning.small_integers import small_integers, truncated_float
from ..planning.wrapped_indices import place_of, wrapped_indices
from ..threads import safepoints
from . import control
from .block_outlining import cut_long_blocks
from .checks import Checks
from .region_outlining import outline_regions
from .remainders import remainder, small_remainders


class FunctionLowering(FunctionBuilder):
    """A function whose ops are all lowered by ``lower``; combines the parts of the lowering."""

    def __init__(self, module: ModuleBuilder, func: Function) -> None:
        super().__init__(module, func)
        self.chains = recurrences(self.forest)
        self.apart = products_beside(self.chains) | carried_sums(self.forest, self.options.fastmath)
        self.repeated = repeated_products(list(func.all_ops()), self.apart)
        self.unpredictable, self.inverted = one_of_two(self.forest)
        self.shared = shared_conditions(self.forest, self.chains) if selection.selects_by_mask(self) else set()
        self.ends = index_tests(self.forest)
        self.wrapped = wrapped_indices(self.forest.dom)
        self.deferred = {v.op for w in self.wrapped.values() for v in (w.place, *w.tests)}
        late, self.unguarded = (
            deferred_casts(self.forest.dom.order, self.wrapped) if casts.truncates_by_instruction(self)
            else ({}, set()))
        if casts.truncates_by_instruction(self) and self.target.vector_bits < 512:
            self.unguarded |= index_casts(self.forest.dom.order)
        self.remainders = small_remainders(self.forest)
        self.small = small_integers(self.forest) if casts.converts_by_bits(self) else set[Op]()
        self.polling = safepoints.Polling(self)
        self.scratch = loop_buffers.Scratch(self)
        self.arrays = ArrayOps(self)
        self.checks = Checks(self, late)
        self.flow = control.Flow(self, self.polling, self.scratch, self.checks, self.apart)

    # --- interface for the folders below ----------------------------------------------------------

    def alloc(self, type: Array, sizes: Sequence[str], value: Value | None = None) -> Buffer:
        return arena.alloc(self, self.scratch, type, sizes, value)

    def loop(self, n: str, body: Body, carried: Sequence[tuple[str, str]] = (), hint: str = "l",
             note: str = "", each: str = "1", unbounded: bool = False) -> list[str]:
        if n == "1":
            return list(body("0", [name for _, name in carried]))
        with self.polling.around(n, each, unbounded) as in_strips:
            if in_strips:
                return self.polling.strips_of(n, each, carried, lambda start, end, values: self.plain_loop(
                    end, body, [(t, v) for (t, _), v in zip(carried, values)], hint, note, start))
            return self.plain_loop(n, body, carried, hint, note)

    def count_iterations(self, n: str, each: str) -> None:
        if self.polling.active and self.forest.loop_of(self.block) is not None:
            self.polling.count(self.mul(n, each))

    # --- the whole function -----------------------------------------------------------------------

    def lower(self) -> None:
        """Write the function into the module."""
        params = self.flow.enter()
        rows = {loop.head for loop in self.forest.loops if not loop.children and accesses_rows(loop, self.plan.roots)}
        for block in self.forest.dom.order:
            self.flow.begin(block)
            self.group = self.writer.access_group() if block in rows else ""
            for op in block.ops:
                self.lower_op(op)
            self.flow.terminate(block)
        self.group = ""
        self.write_failure_exit()
        if not outline_regions(self):
            cut_long_blocks(self)
        result = types.result_struct(self.func.result_types)
        name = symbol(self.func.name)
        attributes = self.module.function_attributes(self.func) + self.width
        head = f"define internal {result} {global_name(name)}({params}) {attributes}"
        self.writer.function(name, f"{head} {{\n{self.code.text()}\n}}\n")

    def _one_of_two(self, op: Op) -> str:
        """A selection that stays one: see ``planning/one_of_two.py``."""
        condition, x, y = (self.scalar(v) for v in op.operands)
        test, t = op.operands[0].op, dtype_of(op.result.type)
        if op in self.inverted and test is not None:
            sides = [self.scalar(v) for v in test.operands]
            compared = dtype_of(test.operands[0].type)
            inverse = selection.inverse_comparison(self, test.name, compared, sides)
            return selection.select(self, t, inverse, y, x)
        return selection.select(self, t, condition, x, y, f", !unpredictable {self.writer.node('')}")

    def _by_mask(self, op: Op) -> str:
        """A selection by a mask: see ``planning/shared_conditions.py``."""
        condition, t = op.operands[0], dtype_of(op.result.type)
        test, x, y = condition.op, *(self.scalar(v) for v in op.operands[1:])
        assert test is not None
        mask = selection.bool_mask(self, t, self.scalar(condition)) if test.name == "get" else \
            selection.comparison_mask(self, test.name, t, [self.scalar(v) for v in test.operands])
        return selection.select_by_mask(self, t, mask, x, y)

    def lower_op(self, op: Op) -> None:
        """Emit one op that is not a terminator."""
        self.loc = op.loc
        if op.name in tape.OPS:
            tape.lower(self, op)
        elif op in self.deferred:
            return
        elif op.name == "check" and op in self.wrapped:
            self.checks.wrap(op, self.wrapped[op])
        elif op.name == "select" and self.forest.loop_of(self.block) is not None and (wrap := place_of(op)) is not None:
            self.checks.add_if_negative(op.result, *wrap)
        elif op.name == "check":
            self.checks.check(op)
        elif is_array(op.result) or op.name not in ELEMENTWISE and any(map(is_array, op.operands)):
            self.arrays.lower(op)
        elif op in self.unguarded:
            x = op.operands[0]
            self.values[op.result] = casts.truncated(self, dtype_of(x.type), self.scalar(x))
        elif op in self.small:
            whole = op.operands[0]
            part = truncated_float(whole) if casts.rounds_by_instruction(self) else None
            self.values[op.result] = casts.of_small_integer(self, self.scalar(whole)) if part is None else \
                casts.integer_part(self, self.scalar(part))
        elif op in self.shared:
            self.values[op.result] = self._by_mask(op)
        elif op in self.ends:
            start, following, trip = (self.scalar(v) for v in self.ends[op])
            end = self.code.arith("add", "i64", start, trip, hint="end")
            self.values[op.result] = self.code.icmp("ne", "i64", following, end, hint="c")
        elif op in self.remainders:
            self.values[op.result] = remainder(self, op, self.remainders[op])
        elif op in self.unpredictable:
            self.values[op.result] = self._one_of_two(op)
        else:
            self.values[op.result] = ops.scalar(self, op, [self.scalar(v) for v in op.operands],
                                                apart=op in self.apart, chained=op in self.chains)
