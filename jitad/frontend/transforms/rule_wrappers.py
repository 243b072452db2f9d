"""The functions that a derivative rule names (``ir.graph.Rule``): wrappers of the user's functions.

A user's function takes the leaves of its arguments and of its captures, and the captured values that it reads.  All
functions that a rule names take the same parameters, those of the function that has the rule.  Each calls the function
below it with a selection of these parameters, and converts its results to the required types and sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import DifferentiationError, Loc
from ...ir.builder import Builder
from ...ir.graph import ExcInfo, Function, Module, Rule, Value
from ...ir.types import Array, Type, dims_of, dtype_of, is_float
from ...pytree import Within
from ..captured.places import Place
from ..operations import builtin
from ..values.protocol import FunctionRef, Trace
from ..values.variant_guards import presence, unless_absent, zero_if_absent, zeros

EMPTY: Mapping[Value, int] = {}


@dataclass(frozen=True)
class Like:
    """The value that a derivative belongs to: a parameter, or a result of the function below.

    ``within``: the variants that contain it; their tags are numbered like ``number``.
    """

    number: int
    of_result: bool
    within: Within = ()


@dataclass
class Entry:
    """A function with a rule, which wraps the function ``of``.

    ``extras``: captured values that only its rules read, passed last.
    """

    name: str
    of: Function
    extras: list[Place] = field(default_factory=list)
    done: bool = False
    called: bool = False                                     # while its rules were being traced


class Over:
    """The functions that a rule names.

    They take the parameters of the called function, and pass on those that the function below them takes.
    """

    def __init__(self, t: Trace, base: FunctionRef, custom: Any, entry: Entry) -> None:
        self.t, self.base, self.custom, self.entry, self.module = t, base, custom, entry, t.module
        self.consts = list(base.consts)
        self.first_const = len(base.params) - len(self.consts)
        self.made: list[Caller] = []

    def place(self, place: Place) -> int:
        """The index of the parameter for the captured value at this place; adds the parameter if there is none."""
        if place not in self.consts:
            self.consts.append(place)
            self.entry.extras.append(place)
        return self.first_const + self.consts.index(place)

    def function(self, below: FunctionRef, name: str, stand_ins: Sequence[Value], loc: Loc,
                 twice: Mapping[Value, int] = EMPTY) -> Caller:
        """A function that calls ``below``.

        ``stand_ins`` are additional parameters, after all others; a value in ``twice`` is the parameter with this
        index.
        """
        params = below.params[:len(below.params) - len(below.consts)]
        known = {v: (0, i) for v, i in twice.items()} | {v: (1, k) for k, v in enumerate(stand_ins)}
        first = next((i for i, v in enumerate(params) if v in known), len(params))
        end = self.first_const - len(params)                 # later parameters are found from the end
        takes = [known[v] if v in known else (0, i if i < first else end + i) for i, v in enumerate(params)]
        takes += [(0, self.place(a)) for a in below.consts]
        return Caller(self.module, below, name, takes, [v.type for v in stand_ins], loc)

    def finish(self, kind: str, callers: Iterable[Caller], wrt: Sequence[int]) -> None:
        """Writes the functions, now that all parameters are known."""
        t, base = self.t, self.base
        types = [v.type for v in (*base.params, *(t.value(t.constant(a)) for a in self.entry.extras))]
        plain = Caller(self.module, base, self.entry.name, [(0, i) for i in range(len(base.params))], [],
                       builtin.location(self.custom.fun))
        plain.give(base.result_types, [*range(len(base.result_types))])
        plain.write(types).attrs["py_name"] = self.custom.__name__
        for caller in callers:
            caller.write(types)
        self.module.rules[self.entry.name] = Rule(kind, tuple(c.name for c in callers), tuple(wrt))


class Caller:
    """A function that calls ``below`` with a selection of its parameters and returns a selection of the results."""

    def __init__(self, module: Module, below: FunctionRef, name: str, takes: list[tuple[int, int]],
                 own: list[Type], loc: Loc) -> None:
        self.module, self.below, self.name, self.takes, self.own, self.loc = module, below, name, takes, own, loc

    def give(self, types: Sequence[Type], which: Sequence[int | None], like: Sequence[Like | None] = (),
             tags: Sequence[tuple[int, Like]] = ()) -> None:
        """Sets the results.

        Result ``i`` is ``which[i]`` of ``below``, or zero, with the type ``types[i]`` and the sizes of ``like[i]``.
        ``tags``: the results that must equal the tags that they are like.
        """
        self.types, self.which, self.like, self.tags = list(types), list(which), list(like), tags

    def write(self, types: Sequence[Type]) -> Function:
        func = Function(self.name, [*types, *self.own], self.types)
        func.loc = self.loc
        b = Builder(func.entry, self.loc)
        args = [func.params[i + len(types) * mine] for mine, i in self.takes]
        results = b.call_then(self.below.name, args, self.below.result_types)
        for i, like in self.tags:
            self._check_tag(b, results, results[i], like)
        b.ret([self._result(b, results, i) for i in range(len(self.types))])
        self.module.functions[self.name] = func
        return func

    def _result(self, b: Builder, results: list[Value], i: int) -> Value:
        which, type = self.which[i], self.types[i]
        like = self.like[i] if i < len(self.like) else None
        value, there = self._found(b, results, like) if like is not None else (None, None)
        if which is not None:
            return converted(b, self.module, results[which], type, value, there, self.loc)
        assert value is not None
        return zeros(b, type, _sizes(b, value))

    def _found(self, b: Builder, results: list[Value], like: Like) -> tuple[Value, Value | None]:
        """A value, and the condition that it is present."""
        values = results if like.of_result else b.func.params
        return values[like.number], presence(b, [(values[tag], variant) for tag, variant in like.within])

    def _check_tag(self, b: Builder, results: list[Value], tag: Value, like: Like) -> None:
        mine, there = self._found(b, results, like)
        exc = self.module.exception(ExcInfo("ValueError", "a rule gives a derivative of another kind than its value",
                                            self.loc))
        b.check(unless_absent(b, there, b.eq(tag, mine)), exc)


def _sizes(b: Builder, v: Value) -> list[Value]:
    return b.dims(v) if isinstance(v.type, Array) else []


def converted(b: Builder, module: Module, v: Value, type: Type, like: Value | None, there: Value | None, loc: Loc,
              ) -> Value:
    """``v`` as a value of this type with the sizes of ``like``, checked at run time if they are not known.

    It is zero if the value ``like`` is not present.
    """
    fit = len(dims_of(v.type)) == len(dims_of(type)) and is_float(v.type) == is_float(type) and all(
        n == m or n is None or m is None for n, m in zip(dims_of(v.type), dims_of(type)))
    if not fit:
        raise DifferentiationError(f"a rule gives {v.type} where {type} is needed", loc, "" if there is None else
                                   "of what is of several kinds, choose among them in the same order")
    if dtype_of(v.type) != dtype_of(type):
        v = b.cast(v, dtype=dtype_of(type))
    if like is not None and isinstance(type, Array):
        exc = module.exception(ExcInfo("ValueError", "a rule gives an array of size {} where {} is needed", loc))
        for n, m in zip(b.dims(v), b.dims(like)):
            b.check(unless_absent(b, there, b.eq(n, m)), exc, n, m)
    return zero_if_absent(b, there, v, type, lambda: _sizes(b, like) if like is not None else [])


# --- checkpoint -----------------------------------------------------------------------------------

def checkpointed(t: Trace, below: FunctionRef) -> str:
    """The name of a function that computes ``below`` and is recomputed in the reverse sweep."""
    module: Module = t.module
    types = [v.type for v in below.params]
    wrt = tuple(i for i, x in enumerate(types) if is_float(x))
    name = module.unique_name(f"{below.name}.checkpoint")
    func = module.add(Function(name, types, below.result_types))
    func.own, func.loc = set(module.functions[below.name].own), module.functions[below.name].loc
    b = Builder(func.entry, func.loc)
    b.ret(b.call_then(below.name, func.params, below.result_types))
    module.rules[name] = Rule("checkpoint", (below.name,), wrt)
    return name
