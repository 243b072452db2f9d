"""Traces a Python function: runs its hooks (``syntax.virtualise``) on stand-ins, which records IR (``trace``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import pytree
from ...errors import JitadError, UnsupportedError, took_columns
from ...ir.graph import Function, Module, Value
from ...ir.types import Scalar, Type
from ...passes.cleanup.dce import drop_unreached
from ..captured.captures import Captures, NeedName
from ..captured.guards import Guard
from ..captured.leaves import Leaf, Opened
from ..captured.options import Options
from ..captured.places import Place, Reader
from ..columns.inferred_types import Seen, inferred
from ..columns.layouts import Layout
from ..columns.list_columns import Columns
from ..columns.pack import Packed
from ..columns.recursive_types import Family, Known, with_inferred
from ..objects import containers
from ..trees.heaps import NeedHeap
from ..values.growing import NeedRows
from ..values.lattice import UNBOUND, is_number, is_scalar
from ..values.session import Session
from ..values.values import ARGUMENT, ELEMENT, ArrayRef, Instance, Obj, Sym, activate
from . import callers, calls, specialise
from .trace import FunctionTrace

RETRIED = (JitadError, TypeError)
"""Refusals that a constant in place of a parameter may avoid.  Any other exception is the user's, or a mistake here."""


@dataclass
class Traced:
    """A traced function.

    ``root`` takes the leaves of the arguments in order, then the values at the places ``captured``, whose types are
    ``captured_leaves``.  It returns the leaves of the result; ``in_structure`` is the structure of ``(args, kwargs)``.
    The program is valid while the ``guards`` hold.  ``shared``: the functions that come from compiled functions of the
    user, by name.
    """

    module: Module
    root: str
    in_structure: pytree.Structure
    out_structure: pytree.Structure
    in_types: list[Type]
    out_types: list[Type]
    out_static: list[Any]              # per leaf of the result: ``UNBOUND``, or its constant Python value
    captured: list[Place]
    captured_leaves: list[Leaf]
    guards: list[Guard]
    leaves: Sequence[Any]              # of the arguments
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def consts(self) -> list[Any]:
        """The current values at the captured places."""
        read = Reader(self.leaves)
        return [read(p) for p in self.captured]


def trace(fun: Callable[..., Any], arg_specs: Sequence[Any], kw_specs: dict[str, Any] | None = None,
          module: Module | None = None, options: Options | None = None, leaves: Sequence[Any] = (),
          widened: frozenset[Place] = frozenset()) -> Traced:
    """Records ``fun`` for arguments of these types: pytrees whose leaves are ``Leaf``, ``Opened`` or static values.

    ``leaves``: the leaves of the arguments, for those that are ``Opened``; ``widened``: see
    ``captured.captures.Captures``. Captured floats are constants if the program cannot be traced with parameters in
    their place.
    """
    made, names = options or Options(), set[str]()
    ways = [(False, widened), (False, frozenset[Place]()), (True, frozenset[Place]())][not widened:]
    heaps: dict[Family, Layout] = {}
    rows = 0
    exact: dict[type, set[str]] | None = None
    seen: Seen = {}
    records: Known | None = None
    first: Exception | None = None
    while True:
        reading = Captures(fun, leaves, *ways[0], names, exact)
        try:
            with with_inferred(records):
                traced = _trace(fun, arg_specs, kw_specs or {}, module or Module(), made, heaps, reading, rows, seen)
            if exact is not None or not reading.unread():
                return traced
            exact = reading.asked                    # once more, without guards on attributes that it does not read
        except NeedHeap as need:                     # once for each family, and for each widening of a layout
            heaps = {f: known for f, known in heaps.items() if f is not need.instead}
            heaps[need.layout.family] = need.layout
        except NeedRows:
            rows += 1
        except NeedName as need:
            names.add(need.name)
            if exact is not None:
                exact.setdefault(need.cls, set()).add(need.name)
        except RETRIED as e:
            found = inferred(seen)
            if found and (records is None or found != records.inferred):
                records, heaps, first = Known(found), {}, first or e     # again, with these classes as records
                continue
            if len(ways) == 1 or not any(isinstance(kind, Scalar) for kind, _ in reading.types.values()):
                if first is not None:
                    raise first from None
                raise
            del ways[0]


def _trace(fun: Callable[..., Any], arg_specs: Sequence[Any], kw: dict[str, Any], module: Module, options: Options,
           heaps: dict[Family, Layout], reading: Captures, rows: int, seen: Seen) -> Traced:
    name = module.unique_name(_identifier(getattr(fun, "__name__", "f")))
    module.parallel = options.parallel
    module.fastmath = options.fastmath
    func = module.add(Function(name))
    session = Session(module, options, heaps=dict(heaps), captures=reading, rows=rows, attributes=seen)
    t = FunctionTrace(session, func)
    try:
        return _recorded(t, fun, arg_specs, kw)
    except (UnsupportedError, TypeError) as e:
        if t.session.long_lists:
            took_columns(e)
        raise


def _recorded(t: FunctionTrace, fun: Callable[..., Any], arg_specs: Sequence[Any], kw: dict[str, Any]) -> Traced:
    module, func, name = t.module, t.func, t.func.name
    in_leaves, in_structure = pytree.flatten((tuple(arg_specs), kw))
    in_types = [leaf.type for leaf in in_leaves if isinstance(leaf, Leaf)]
    with activate(t):
        t.pinned = t.begin_heaps()
        params = iter([func.entry.add_param(kind) for kind in in_types])         # captured values follow
        args = [_argument(t, a, params) for a in arg_specs]
        kwargs = {k: _argument(t, a, params) for k, a in kw.items()}
        fn, args = calls.callable_of(t, fun, args)
        func.loc = t.builder.loc = fn.code.loc
        specialise.run_body(t, fn, fn.code.bind(t, fn, args, kwargs))
        if not t.returns:
            callers.note_calls(module, name)
            return Traced(module, name, in_structure, pytree.NONE, in_types, [], [], *_read(t), t.session.shared)
        t.join(t.returns, [t.result], "exit")
        value = containers.export(t, t.load(t.result))
        leaves, out_structure = pytree.flatten(value)
        syms: list[Any] = [t.read(v) if isinstance(v, ArrayRef) else v for v in leaves]
        static = [UNBOUND if isinstance(v, Sym) or is_number(v) else v for v in syms]
        syms = [t.sym(v) for v in syms if is_scalar(v) or isinstance(v, Sym)]
        t.builder.ret([v.value for v in syms])
    func.result_types = [v.type for v in syms]
    if t.options.checkpoint is not None:
        for traced in module.functions.values():
            traced.attrs["checkpoint"] = t.options.checkpoint
    if module.rules:
        drop_unreached(module, [name])                       # rules of functions that recursion has traced again
    callers.note_calls(module, name)
    return Traced(module, name, in_structure, out_structure, in_types, list(func.result_types), static,
                  *_read(t), t.session.shared)


def _read(t: FunctionTrace) -> tuple[list[Place], list[Leaf], list[Guard], Sequence[Any]]:
    """The captured places of the program and their types, its guards, and the leaves of its arguments."""
    o = t.session.captures
    return list(t.consts), [Leaf(*o.types[p]) for p in t.consts], o.all_guards(), o.read.leaves


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "lambda_"


def _argument(t: FunctionTrace, spec: Any, params: Iterator[Value]) -> Any:
    """The stand-in for an argument: a parameter for each ``Leaf``; mutable parts belong to the caller."""
    if isinstance(spec, Leaf):
        sym = Sym(next(params), spec.weak)
        return t.new_array(sym, ARGUMENT) if sym.is_array else sym
    if isinstance(spec, Opened):
        return t.captured_value(Place("argument", None, spec.number))
    if isinstance(spec, (list, dict)) or (isinstance(spec, tuple)):
        pass
    elif not pytree.is_container(spec) or isinstance(spec, (str, type(None))):
        return spec
    static, children = pytree.children(spec)
    new = [_argument(t, c, params) for c in children]
    if isinstance(spec, Packed):
        return t.argument(Packed(static, new), ARGUMENT)
    if isinstance(spec, Columns):
        for column in new:
            column.obj.readonly = ELEMENT
        found = t.long_list(Columns(static, new))
        t.session.long_lists[id(found)] = found
        return found
    obj: Obj
    if isinstance(spec, tuple):
        return tuple(new) if static is None else type(spec)._make(new)       # type: ignore[attr-defined]
    if isinstance(spec, list):
        obj = t.new_list(new)
    elif isinstance(spec, dict):
        obj = t.new_dict(dict(zip(static, new)))
    else:
        obj = Instance(type(spec))
        t.state[obj] = dict(zip(static, new))
    obj.readonly = ARGUMENT
    return obj
