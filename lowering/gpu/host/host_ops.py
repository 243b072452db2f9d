"""Ops of the host program, each as a line or more of Python: numbers, buffers, stacks, loops, launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import UnsupportedError
from ....ir.graph import Function, Op, Value
from ....ir.ops import OPS as IR_OPS
from ....ir.types import BOOL, F64, I64, Scalar, Stack, dtype_of
from ....loop_level.types import buffer_type, type_of
from ..device.patterns import Scan, scan_of
from ..device.recurrence_patterns import Recurrence, recurrence_of
from . import device_array, runtime, scalars
from .launch_builder import LaunchBuilder, among
from .nests import fill, loops_of
from .partition import ONCE, is_parallel
from .plan import Plan
from .residence import Residence

_INTEGERS = {"add": "+", "sub": "-", "mul": "*"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class HostCode:
    """The source of a program; ``space`` is what it refers to."""

    def __init__(self, launches: LaunchBuilder, host: set[str], plan: Plan) -> None:
        self.launches, self.host, self.plan = launches, host, plan
        self.lines: list[str] = []
        self.dtypes: list[Any] = []
        self.meanings: list[Any] = []
        self.attrs: list[Any] = []
        self.types: list[Scalar] = []
        self.space: dict[str, Any] = {
            "L": launches.launches, "D": self.dtypes, "F": self.meanings, "A": self.attrs, "wrap": scalars.wrap,
            "view": device_array.view, "reshape": device_array.reshape, "now": runtime.now, "div": scalars.div,
            "T": self.types}

    def name(self, func: str) -> str:
        return f"f{sorted(self.host).index(func)}"

    def source(self) -> str:
        return "\n".join(self.lines) + "\n"

    def entry(self, table: list[Any], x: Any) -> int:
        """The index of ``x`` in a table."""
        table.append(x)
        return len(table) - 1


class HostOps:
    """Writes the ops of one function, at a margin."""

    def __init__(self, code: HostCode, func: Function, is_root: bool) -> None:
        self.code, self.func, self.is_root = code, func, is_root
        self.resident = Residence(func, is_root, is_parallel, code.host)
        self.names: dict[Value, str] = {}
        self.margin = "    "

    def line(self, text: str) -> None:
        self.code.lines.append(self.margin + text)

    def define(self, v: Value) -> str:
        self.names[v] = f"v{len(self.names)}"
        return self.names[v]

    def use(self, v: Value) -> str:
        """A value that the host computes with."""
        return f"now({self.names[v]})" if v in self.resident else self.held(v)

    def uses(self, vs: Sequence[Value]) -> str:
        return ", ".join(map(self.use, vs))

    def held(self, v: Value) -> str:
        """A value that is passed on, on the device or on the host."""
        return self.constant(v.const, dtype_of(v.type)) if v.const is not None else self.names[v]

    def given(self, v: Value) -> str:
        """An argument of a launch."""
        if v not in self.resident:
            return self.held(v)
        return f"rt.resident({self.names[v]}, {self._type(dtype_of(v.type))})"

    def _type(self, t: Scalar) -> str:
        return f"T[{self.code.entry(self.code.types, t)}]"

    def download(self, v: Value) -> None:
        """Download a scalar that the host needs."""
        if v.const is None and isinstance(type_of(v), Scalar) and v not in self.resident:
            self.line(f"{self.names[v]} = now({self.names[v]})")

    def constant(self, x: Any, t: Scalar) -> str:
        if t is I64:
            return f"({int(x)})" if x < 0 else str(int(x))
        if t is BOOL:
            return str(bool(x))
        value = scalars.as_host(t.np.type(x))
        if t is F64 and value == value and abs(value) != float("inf"):
            return f"({value!r})"
        return f"A[{self.code.entry(self.code.attrs, value)}]"

    def assign(self, vs: Sequence[Value], text: str) -> None:
        """Assign the results of a launch."""
        names = "".join(f"{self.define(v)}, " for v in vs)
        self.line(f"{names}= {text}" if names else text)
        for v in vs:
            self.download(v)

    # --- ops ----------------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        if op.name == "const":
            return
        if op.name in IR_OPS and IR_OPS[op.name].elementwise:
            text = self._arithmetic(op)
            self.line(f"{self.define(op.result)} = {text}")
        elif op.name == "for" and not is_parallel(op):
            self._for(op)
        else:
            rule = getattr(self, f"_op_{op.name}", None)
            if rule is None:
                raise UnsupportedError(f"target=\"cuda\": {op.name} in the host's part of a program", op.loc)
            rule(op)

    def _arithmetic(self, op: Op) -> str:
        xs, t = [self.use(v) for v in op.operands], dtype_of(op.operands[-1].type)
        if op.name == "stop":
            return xs[0]
        if op.name == "select":
            return f"{xs[1]} if {xs[0]} else {xs[2]}"
        if op.name in _COMPARISONS and t in (I64, F64):
            return f"{xs[0]} {_COMPARISONS[op.name]} {xs[1]}"
        if t is I64 and op.name in _INTEGERS:
            return f"wrap({xs[0]} {_INTEGERS[op.name]} {xs[1]})"
        if t is I64 and op.name in ("minimum", "maximum"):
            return f"{op.name[:3]}({xs[0]}, {xs[1]})"
        if t is F64 and op.name in _INTEGERS:
            return f"{xs[0]} {_INTEGERS[op.name]} {xs[1]}"
        if t is F64 and op.name == "div":
            return f"div({xs[0]}, {xs[1]})"
        if t is I64 and op.name == "cast" and op.attrs["dtype"] is F64:
            return f"float({xs[0]})"
        if t is BOOL and op.name in ("and", "or"):
            return f"{xs[0]} {op.name} {xs[1]}"
        if t is BOOL and op.name == "not":
            return f"not {xs[0]}"
        types = [dtype_of(v.type) for v in op.operands]
        k = self.code.entry(self.code.meanings, scalars.meaning(op.name, op.attrs, types))
        return f"F[{k}]({', '.join(xs)})"

    def _for(self, op: Op) -> None:
        """A loop of the host."""
        body = op.regions[0]
        term = body.term
        assert term is not None
        self.code.plan.host(op.loc, "checks indices, if no kernel does" if ONCE in op.attrs else
                            "a loop whose iterations launch kernels, in order")
        carried = [self.define(p) for p in body.params[1:]]
        if carried:
            self.line(f"{', '.join(carried)}, = {', '.join(map(self.held, op.operands[3:]))},")
        lower, upper, step = map(self.use, op.operands[:3])
        self.line(f"for {self.define(body.params[0])} in range({lower}, {upper}, {step}):")
        margin, self.margin = self.margin, self.margin + "    "
        for inner in body.ops:
            self.op(inner)
        self.line(f"{', '.join(carried)}, = {', '.join(map(self.held, term.operands))}," if carried else "pass")
        self.margin = margin
        for r, c in zip(op.results, carried):
            self.names[r] = c

    def _dtype(self, t: Scalar) -> str:
        return f"D[{self.code.entry(self.code.dtypes, t.np)}]"

    def _op_undef(self, op: Op) -> None:
        t = type_of(op.result)
        if isinstance(t, Scalar):
            text = self.constant(0, t)
        elif isinstance(t, Stack):
            text = "()"
        else:
            b = buffer_type(op.result)
            text = f"rt.empty({', '.join([self._dtype(b.dtype), *(str(d or 0) for d in b.dims)])})"
        self.line(f"{self.define(op.result)} = {text}")

    def _op_alloc(self, op: Op) -> None:
        t = buffer_type(op.result)
        self.line(f"{self.define(op.result)} = rt.empty({self._dtype(t.dtype)}, {self.uses(op.operands)})")

    def _op_dim(self, op: Op) -> None:
        self.line(f"{self.define(op.result)} = {self.use(op.operands[0])}.shape[{op.attrs['axis']}]")

    def _op_load(self, op: Op) -> None:
        self.code.plan.host(op.loc, "reads an element")
        if op.result in self.resident:
            self.line(f"{self.define(op.result)} = rt.peek({self._type(dtype_of(op.result.type))}, "
                      f"{self.uses(op.operands)})")
        else:
            self.line(f"{self.define(op.result)} = rt.load({self.uses(op.operands)})")

    def _op_store(self, op: Op) -> None:
        self.code.plan.host(op.loc, "writes an element")
        x, *rest = op.operands
        self.line(f"rt.store({self.held(x)}, {self.uses(rest)})")

    def _op_view(self, op: Op) -> None:
        attrs = {k: op.attrs[k] for k in ("drop", "perm", "contiguous") if k in op.attrs}
        k = self.code.entry(self.code.attrs, attrs)
        self.line(f"{self.define(op.result)} = view(A[{k}], {self.uses(op.operands)})")

    def _op_reshape(self, op: Op) -> None:
        self.line(f"{self.define(op.result)} = reshape({self.uses(op.operands)})")

    def _op_retype(self, op: Op) -> None:
        self.line(f"{self.define(op.result)} = {self.use(op.operands[0])}")

    def _op_check(self, op: Op) -> None:
        condition, *rest = op.operands
        self.line(f"if not {self.use(condition)}: rt.fail({', '.join([str(op.attrs['exc']), *map(self.use, rest)])})")

    def _op_stack_empty(self, op: Op) -> None:
        self.line(f"{self.define(op.result)} = ()")

    def _op_push(self, op: Op) -> None:
        stack, *values = op.operands
        self.line(f"{self.define(op.result)} = ({', '.join([*map(self.held, values), self.use(stack)])},)")

    def _op_pop(self, op: Op) -> None:
        below, *values = op.results
        stack = self.use(op.operands[0])
        targets = ", ".join([*map(self.define, values), self.define(below)])
        if not op.attrs.get("zeros"):
            self.line(f"{targets}, = {stack}")
            for v in values:
                self.download(v)
            return
        sizes = iter(map(self.use, op.operands[1:]))
        zeros = [self._zero(v, sizes) for v in values]
        self.line(f"{targets}, = {stack} or ({', '.join([*zeros, '()'])},)")
        for v in values:
            self.download(v)

    def _zero(self, v: Value, sizes: Any) -> str:
        t = type_of(v)
        if isinstance(t, (Scalar, Stack)):
            return self.constant(0, t) if isinstance(t, Scalar) else "()"
        b = buffer_type(v)
        shape = [next(sizes) if d is None else str(d) for d in b.dims]
        return f"rt.zeros({', '.join([self._dtype(b.dtype), *shape])})"

    def _op_for(self, op: Op) -> None:
        filled = fill(loops_of(op))
        if filled is not None:
            self.code.plan.host(op.loc, "fills an array")
            self.line(f"rt.fill({self.use(filled[0])}, {filled[1]})")
            return
        found = None if op.attrs.get("independent") or "best" in op.attrs else scan_of(op) or recurrence_of(op)
        if found is not None:
            self._scan(op, found)
            return
        launch, nest = self.code.launches.nest(op, self.func, self.resident)
        bounds = ", ".join(self.use(v) for loop in nest.loops for v in loop.operands[:3])
        self.assign(nest.results, f"L[{launch}](rt, ({bounds}), [{self.all_given(nest.carried)}], "
                                  f"[{self.all_given(nest.captured)}])")

    def _scan(self, op: Op, found: Scan | Recurrence) -> None:
        """A loop that carries a running total."""
        launch, captured = self.code.launches.scan(op, found, self.func, self.resident)
        before = self.given(op.operands[3]) if op.operands[3:] else self._element_before(op, found)
        self.assign(op.results, f"L[{launch}](rt, ({self.uses(op.operands[:3])}), {before}, "
                                f"[{self.all_given(captured)}])")

    def _element_before(self, op: Op, found: Scan | Recurrence) -> str:
        """The number in memory from which a recurrence starts, if it has an iteration."""
        assert isinstance(found, Recurrence) and found.read is not None
        place = (" + ".join([str(x.constant), *(f"{c} * {self.use(v)}" for v, c in x.terms)]) for x in found.place)
        lower, upper, step = map(self.use, op.operands[:3])
        return (f"rt.peek({self._type(found.type)}, {self.use(found.read.operands[0])}, {', '.join(place)}) "
                f"if len(range({lower}, {upper}, {step})) else {self.constant(0, found.type)}")

    def _op_serial(self, op: Op) -> None:
        self.assign(op.attrs.get("results", op.results), self.serial(op.attrs["callee"], op))

    def all_given(self, vs: Sequence[Value]) -> str:
        return ", ".join(map(self.given, vs))

    def serial(self, name: str, op: Op) -> str:
        """The call of a function that one thread runs."""
        launch = self.code.launches.serial(name, op.loc, among(op.operands, self.resident))
        return f"L[{launch}](rt{''.join(f', {self.given(v)}' for v in op.operands)})"

    def _op_matmul(self, op: Op) -> None:
        launch = self.code.launches.product(op, self.func)
        self.line(f"L[{launch}](rt, {self.uses(op.operands)})")
