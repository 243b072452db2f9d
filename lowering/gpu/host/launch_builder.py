"""Builds the launches of a program: writes kernels and the device functions that they call."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from itertools import count
from typing import Any

from ....errors import Loc
from ....ir.graph import Function, Module, Op, Value
from ....ir.types import F32, F64, Scalar
from ....loop_level.types import Buffer, buffer_type
from ....loop_level.verify import origins_of
from ..device import memory
from ..device.emitter import Shared
from ..device.function import write_function
from ..device.patterns import LEAST_ATOMIC, Scan, added_by, in_order, overwriting
from ..device.recurrence_patterns import Recurrence
from ..device.reduce import ROLES
from ..device.rows import RowFunction, has_scans, is_row
from ..device.shared_rows import THREADS, BlockFunction, ColumnFunction, is_column
from ..image import WARP, Kernel
from ..kernels.columns import column_kernel
from ..kernels.loops import APART, ATOMIC, FEW, LOCAL, MapKernel, Needs, Result, map_kernel, serial_kernel
from ..kernels.overwrites import overwrite_kernels
from ..kernels.recurrences import WORDS, recurrence_kernels
from ..kernels.results import sum_kernel
from ..kernels.scans import TILE, scan_kernels
from ..kernels.tensor_tiles import tensor_kernel
from ..kernels.tiles import product_kernel, tile_kernel
from ..kernels.turned import TILE as SIDE
from ..kernels.turned import Turned, turned, turned_kernel
from ..kernels.wide import Wide, wide, wide_kernel
from ..kernels.writer import Resident
from ..tensor_cores import FIRST, FORMATS
from .launches import ENOUGH_THREADS, Launch, MapLaunch, SerialLaunch, SharedLaunch, is_reduced
from .nests import Nest, across, additions, columns, elementwise, loops_of, nest, overwrites, private, recurrence, scan
from .overwrite_launch import OverwriteLaunch
from .partition import reached
from .plan import Plan
from .product_launch import ProductLaunch
from .scan_launch import ScanLaunch
from .wide_launch import WideLaunch

SHARERS = 128
"""Threads that share an iteration of an outlined loop with an inner loop, if the loop has few iterations."""
FROM_ZERO = 0, 1
"""The first index and the step of outlined loops."""


_PARTS = ("finish", "tiles", "totals", "offsets", "wide", "claim", "block", "columns", *FORMATS)
"""The ends of names of kernels that belong to another one."""


class LaunchBuilder:
    """``launches`` of the host program, by number; ``kernels`` of the image.

    ``library()``: the name of the library that the driver has for products of matrices, or "".  ``format``: what
    products of f32 may round their operands to, or "".
    """

    def __init__(self, shared: Shared, plan: Plan, deterministic: bool = False,
                 library: Callable[[], str] = lambda: "", format: str = "") -> None:
        self.shared, self.plan, self.deterministic, self.library = shared, plan, deterministic, library
        self.format = format
        self.launches: list[Launch] = []
        self.kernels: list[Kernel] = []
        self._written: set[tuple[str, frozenset[int]]] = set()
        self._serial: dict[tuple[str, tuple[int, ...]], int] = {}
        self._names: set[str] = set()

    @property
    def module(self) -> Module:
        return self.shared.module

    def _add(self, launch: Launch, *made: Kernel | None) -> int:
        self.kernels += [k for k in made if k is not None]
        self.launches.append(launch)
        return len(self.launches) - 1

    def _name(self, stem: str) -> str:
        """A new name for a kernel, in ASCII, without dots."""
        stem = name = re.sub(r"\W", "_", stem, flags=re.ASCII)
        numbers = count(2)
        while name in self._names:
            name = f"{stem}_{next(numbers)}"
        self._names |= {name, *(f"{name}_{part}" for part in _PARTS)}
        return name

    def _write(self, name: str, adding: frozenset[int] = frozenset()) -> None:
        """Write a device function and those that it calls."""
        if (name, adding) in self._written:
            return
        self._written.add((name, adding))
        func = self.module.functions[name]
        write_function(self.shared, func, adding)
        for callee in func.callees():
            self._write(callee)

    # --- loops --------------------------------------------------------------------------------------

    def nest(self, op: Op, func: Function, resident: Container[Value] = ()) -> tuple[int, Nest]:
        """The launch of an independent nest of loops, of a search, or of additions to an array.

        Kernels take the addresses of ``resident`` scalars.
        """
        if not op.attrs.get("independent") and (b := added_by(op)) is not None:
            return self._additions(additions(self.module, in_order(op), b, func), resident)
        if not op.attrs.get("independent") and (store := overwriting(op)) is not None:
            return self._overwrites(*overwrites(self.module, in_order(op), store, func), resident)
        if (loads := turned(loops_of(op))) is not None:
            return self._across(loops_of(op), loads, func, resident)
        found = nest(self.module, op, func)
        rows = not found.kinds and is_row(found.body.entry.ops, found.body.params[:len(found.loops)])
        if rows:
            own = private(op, found.captured, func)
            RowFunction(self.shared, found.body, own).write()
        else:
            self._write(found.body.name)
        results = [Result(ROLES[kind], v.type) for kind, v in zip(found.kinds, found.carried)]
        known = [(loop.operands[0].const, loop.operands[2].const) for loop in found.loops]
        made = map_kernel(self.shared, self._name(found.body.name), found.body.loc, found.body,
                                  known, results, self._needs(found.body), outlined=False,
                                  threads_each=WARP if rows else 1,
                                  resident=(among(found.carried, resident), among(found.captured, resident)))
        title = f"{len(found.loops)} loops" if len(found.loops) > 1 else "a loop"
        self._tell(made, title + (", a warp for each iteration" if rows else ""))
        launch = MapLaunch(made, tuple(known), {})
        ops, there = found.body.entry.ops, among(found.captured, resident)
        if rows and not has_scans(ops):
            BlockFunction(self.shared, found.body, own).write()
            few = map_kernel(self.shared, f"{made.kernel.name}_block", found.body.loc, found.body, known, [],
                             Needs(), outlined=False, threads_each=THREADS, block=THREADS, resident=((), there),
                             suffix=BlockFunction.suffix)
            self._tell(few, "the same for few rows, a block for each iteration")
            return self._add(SharedLaunch(MapLaunch(few, tuple(known), {}), launch, ENOUGH_THREADS // WARP),
                             made.kernel, few.kernel), found
        if not found.kinds and is_column(ops, found.body.params[:len(found.loops)]):
            return self._columns(found, launch, func, there), found
        at_once = None if rows else wide(found.loops)
        if at_once is not None:
            return self._wide(found, at_once, launch, func, among(found.captured, resident)), found
        return self._add(launch, made.kernel, made.finish), found

    def _columns(self, found: Nest, narrow: MapLaunch, func: Function, resident: tuple[int, ...]) -> int:
        """The launch of a nest whose body has loops across lines."""
        other, stores = columns(self.module, found.loops, func)
        ColumnFunction(self.shared, other.body).write()
        made = column_kernel(self.shared, f"{narrow.kernel.name}_columns", found.body.loc, narrow.loops, other.body,
                             stores, other.captured, resident)
        self._tell(made, "the same for few columns, whose iterations the warps of a block share")
        launch = MapLaunch(made, narrow.loops, {})
        return self._add(SharedLaunch(launch, narrow, ENOUGH_THREADS), narrow.kernel, made.kernel)

    def _wide(self, found: Nest, at_once: Wide, narrow: MapLaunch, func: Function, resident: tuple[int, ...]) -> int:
        """The launch of a nest whose threads can access 16 bytes at once."""
        element = elementwise(self.module, found.loops, at_once, found.captured, func)
        self._write(element.name)
        kernel = wide_kernel(self.shared, f"{narrow.kernel.name}_wide", found.body.loc, element, at_once,
                             found.captured, resident)
        self.plan.kernel(kernel, f"{at_once.count} iterations a thread",
                         "the same, 16 bytes at once, if the arrays begin at multiples of them")
        arrays = among(found.captured, at_once.arrays)
        return self._add(WideLaunch(kernel, at_once.count, arrays, narrow), narrow.kernel, kernel)

    def _across(self, loops: Sequence[Op], loads: Turned, func: Function, resident: Container[Value]
                ) -> tuple[int, Nest]:
        """The launch of a nest that loads across lines."""
        found, fetch = across(self.module, loops, loads, func)
        known = [(loop.operands[0].const, loop.operands[2].const) for loop in loops]
        for function in (found.body, fetch):
            self._write(function.name)
        made = turned_kernel(self.shared, self._name(found.body.name), found.body.loc, found.body, fetch, known, loads,
                             among(found.captured, resident))
        self.plan.kernel(made.kernel, f"{SIDE} × {SIDE} iterations a block",
                         f"{len(loops)} loops, with a tile in shared memory that is loaded across")
        return self._add(MapLaunch(made, tuple(known), {}), made.kernel), found

    def _additions(self, found: Nest, resident: Container[Value]) -> tuple[int, Nest]:
        """The launch of a nest that adds to the elements of an array."""
        t, place = buffer_type(found.carried[0]), len(found.loops)
        known = [(loop.operands[0].const, loop.operands[2].const) for loop in found.loops]
        made = []
        for way in [APART] if self.deterministic else [ATOMIC, LOCAL]:
            self._write(found.body.name, frozenset({place}) if way == ATOMIC else frozenset())
            made.append(map_kernel(self.shared, self._name(found.body.name), found.body.loc, found.body, known,
                                           [Result("add", t, way)], self._needs(found.body), outlined=False,
                                           resident=((), among(found.captured, resident))))
            small = f", if it has {FEW} elements at most" if way == LOCAL else ""
            self._tell(made[-1], f"adds to elements of an array {way}{small}")
        adders = {0: self._adder(found.body, t.dtype)} if self.deterministic else {}
        few = made[1] if len(made) > 1 else None
        launch = MapLaunch(made[0], tuple(known), adders, few)
        return self._add(launch, *(m.kernel for m in made), *adders.values()), found

    def _overwrites(self, found: Nest, places: Function, resident: Container[Value]) -> tuple[int, Nest]:
        """The launch of a nest that stores to elements of an array, the last one to each."""
        known = tuple((loop.operands[0].const, loop.operands[2].const) for loop in found.loops)
        for function in (found.body, places):
            self._write(function.name)
        claim, store = overwrite_kernels(self.shared, self._name(found.body.name), found.body.loc, known,
                                         buffer_type(found.carried[0]), places, found.body,
                                         among(found.captured, resident))
        self.plan.kernel(claim, "an iteration a thread", "finds the last store to each element of an array")
        self.plan.kernel(store, "an iteration a thread", "makes these stores")
        return self._add(OverwriteLaunch.of(claim, store, known), claim, store), found

    def _adder(self, func: Function, t: Scalar) -> Kernel:
        """The kernel that adds up the arrays of the threads."""
        made = sum_kernel(self.shared, self._name(f"{func.name}_sum"), func.loc, t)
        self.plan.kernel(made, "an element a thread", "adds the arrays of the threads")
        return made

    def scan(self, op: Op, found: Scan | Recurrence, func: Function, resident: Container[Value]
             ) -> tuple[int, Sequence[Value]]:
        """The launch of a scan, or of a recurrence, and what its functions capture."""
        is_scan = isinstance(found, Scan)
        parts = scan(self.module, op, found, func) if isinstance(found, Scan) else recurrence(
            self.module, op, found, func)
        self._write(parts.body.term.name)
        self._write(parts.body.step.name)
        known = op.operands[0].const, op.operands[2].const
        write = scan_kernels if is_scan else recurrence_kernels
        start = among(op.operands[3:], resident) if op.operands[3:] else (0,)          # an element of an array
        made = write(self.shared, self._name(f"{func.name}_scan"), parts.body.step.loc, known, parts.body,
                     (start, among(parts.captured, resident)))
        does = f"a scan ({parts.body.role}) {'of what is kept' if parts.body.compacts else 'along a loop'}"
        self.plan.kernel(made.scan, f"{TILE} iterations a block, or several times as many", does)
        self.plan.kernel(made.totals, "the same", "the totals of the blocks, if there are several")
        self.plan.kernel(made.offsets, "one block", "what comes before each block")
        launch = ScanLaunch(made, known, parts.body.type, 1 if is_scan else WORDS)
        return self._add(launch, made.scan, made.totals, made.offsets), parts.captured

    def outlined(self, op: Op, resident: Container[Value] = ()) -> tuple[int, int]:
        """The launch of a loop that was outlined, and how many of its arguments it carries; −1: one thread runs it."""
        callee, roles = self.module.functions[op.attrs["callee"]], list(op.attrs["threads"])
        left = op.attrs.get("left", 0)
        carried = len(roles) - left
        roles[carried:] = ["left"] * left
        if "left" not in op.attrs or not _is_in_place(callee, carried):
            return self.serial(callee.name, op.loc, among(op.operands, resident),
                               "results that are not updated in place"), -1
        sums = [k for k in range(carried) if isinstance(callee.result_types[k], Buffer) and roles[k] != "each"]
        ways = [APART] if sums else [""]
        if self._can_add(callee, sums):
            ways = [ATOMIC, LOCAL]
        there = among(op.operands[2:2 + carried], resident), among(op.operands[2 + carried:], resident)
        made = [self._outlined_by(callee, roles, sums, way, there) for way in ways]
        adders = {}
        if ways == [APART]:
            for k in sums:
                adders[k] = self._adder(callee, buffer_type(callee.params[2 + k]).dtype)
        every = [k for m in made for k in (m.kernel, m.finish)]
        few = made[1] if len(made) > 1 else None
        launch = MapLaunch(made[0], (FROM_ZERO,), adders, few)
        if op.attrs.get("shared") and made[0].needs == Needs():
            shared = self._outlined_by(callee, roles, (), "", there, SHARERS)
            both = SharedLaunch(MapLaunch(shared, (FROM_ZERO,), {}), launch, ENOUGH_THREADS)
            return self._add(both, *every, shared.kernel), carried
        return self._add(launch, *every, *adders.values()), carried

    def _outlined_by(self, callee: Function, roles: Sequence[str], sums: Sequence[int], way: str,
                     resident: Resident, sharers: int = 1) -> MapKernel:
        """The kernels of an outlined loop whose threads add to arrays in this way; ``sharers``: an iteration's."""
        self._write(callee.name, frozenset(2 + k for k in sums) if way == ATOMIC else frozenset())
        results = [Result(role, t, way if k in sums else "")
                   for k, (role, t) in enumerate(zip(roles, _types(callee.result_types)))]
        made = map_kernel(self.shared, self._name(callee.name), callee.loc, callee, [FROM_ZERO], results,
                          self._needs(callee), outlined=True, threads_each=sharers, resident=resident,
                          shares=sharers > 1)
        shown = ", ".join(f"{p.hint or 'value'}: {r.role}{r.adding and ' ' + r.adding}"
                          for p, r in zip(callee.params[2:], results))
        small = f", if the arrays have {FEW} elements at most" if way == LOCAL else ""
        each = "a thread" if sharers == 1 else f"the same, if there are few, {sharers} threads"
        self._tell(made, f"{each} for each iteration{f' ({shown})' if shown else ''}{small}")
        return made

    def _needs(self, func: Function) -> Needs:
        return needs(self.module, func, self.shared.recursive)

    def _can_add(self, callee: Function, sums: Sequence[int]) -> bool:
        """True if threads add to the shared arrays by atomics."""
        if not sums or self.deterministic or any(
                buffer_type(callee.params[2 + k]).dtype.bits < LEAST_ATOMIC for k in sums):
            return False
        try:
            memory.additions(callee, frozenset(2 + k for k in sums))
        except memory.NotAdded:
            return False
        return True

    def _tell(self, made: MapKernel, does: str) -> None:
        reduced = [r.role for r in made.results if is_reduced(r)]
        grid = "an iteration a thread" if made.threads == 1 else f"an iteration for {made.threads} threads"
        grid += ", as far as their memory allows" if made.needs.arena else ""
        self.plan.kernel(made.kernel, grid, does + (f", reduced by {', '.join(reduced)}" if reduced else ""))
        if made.finish is not None:
            self.plan.kernel(made.finish, "one block", "combines the results of blocks")

    # --- other ----------------------------------------------------------------------------------------

    def serial(self, name: str, loc: Loc, resident: tuple[int, ...] = (),
               why: str = "nothing of it is for several threads") -> int:
        """The launch of a function that one thread runs; it takes the addresses of the arguments ``resident``."""
        key = name, resident
        if key not in self._serial:
            func = self.module.functions[name]
            self._write(name)
            where = func.loc if func.loc.line else loc
            stem = name if name.endswith(".serial") else f"{name}.serial"
            kernel = serial_kernel(self.shared, self._name(stem), where, func, self._needs(func), resident)
            self.plan.kernel(kernel, "one thread", f"a part of the program, in order: {why}")
            launch = SerialLaunch(kernel, tuple(func.result_types), self._needs(func).arena)
            self._serial[key] = self._add(launch, kernel)
        return self._serial[key]

    def product(self, op: Op, func: Function) -> int:
        """The launch of a product of matrices."""
        kernel = product_kernel(self.shared, self._name(f"{func.name}_matmul"), op)
        out = buffer_type(op.operands[0])
        tiles = tile_kernel(self.shared, f"{kernel.name}_tiles", op) if out.dtype.is_float and out.rank > 1 else None
        library = self.library() if out.dtype in (F32, F64) else ""
        if library:
            self.plan.host(op.loc, f"a product by {library}, if the matrices are not small")
        self.plan.kernel(kernel, "an element a thread", "a product of small matrices" if tiles else "a product")
        if tiles is not None:
            what = "the same if the library does not take them" if library else "the same for large ones"
            self.plan.kernel(tiles, "a tile of 64 × 64 elements a block", what)
        format = self.format if tiles is not None and out.dtype is F32 else ""
        rounded = tensor_kernel(self.shared, f"{kernel.name}_{format}", op, format) if format else None
        if rounded is not None:
            self.plan.kernel(rounded, "a tile of 64 × 64 elements a block",
                             f"the same by tensor cores, rounded to {format}, from sm_{FIRST} on")
        turned = bool(op.attrs.get("ta")), bool(op.attrs.get("tb"))
        launch = ProductLaunch(kernel, tiles, turned, bool(op.attrs.get("add")), bool(library), rounded, format)
        return self._add(launch, kernel, tiles, rounded)


def among(values: Sequence[Value], chosen: Container[Value]) -> tuple[int, ...]:
    """The numbers of the values that are among others."""
    return tuple(k for k, v in enumerate(values) if v in chosen)


def _types(ts: Sequence[Any]) -> list[Any]:
    return list(ts)


def _is_in_place(callee: Function, carried: int) -> bool:
    """True if each array that a loop carries is its parameter, updated."""
    origins = origins_of(callee)
    returns = [b.term for b in callee.blocks if b.term is not None and b.term.name == "return"]
    arrays = [k for k in range(carried) if isinstance(_types(callee.result_types)[k], Buffer)]
    return all(origins[op.operands[k]] == {callee.params[2 + k]} for op in returns for k in arrays)


def needs(module: Module, func: Function, recursive: frozenset[str]) -> Needs:
    """The needs of a function and of those that it calls."""
    names = reached(module, func)
    functions = [func, *(module.functions[name] for name in sorted(names))]
    arrays = frames = False
    for f in functions:
        inside = memory.interleaved(f)
        for op in (op for b in f.blocks for op in b.nested_ops()):
            frames |= op.name == "push" or op in inside
            arrays |= op.name == "alloc" and op.attrs["kind"] != "frame" and op not in inside or "zeros" in op.attrs
    return Needs(bool(arrays), bool(frames), bool(recursive & (names | {func.name})))
