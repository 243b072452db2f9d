"""Calls of functions that have a derivative rule (``ir.graph.Rule``).

A call traces the function and its rules.  Each becomes an IR function that returns the leaves of its result one by one.
Then it makes a wrapper of the first.  The parameters of the wrapper are the leaves of the values that any of them
captures, the leaves of the arguments, and all captured values that they read.  The wrapper has the rule, and is called.

A rule may call the function again.  This call goes to the function whose rule is being traced.

Each is traced as ``run(step, custom, fixed, args)``.  The captures of ``custom`` and ``fixed`` (arguments that are not
differentiated) come first among the parameters of each, so that equal parameters have equal positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from ... import pytree
from ...errors import DifferentiationError, Loc, UnsupportedError
from ...ir.graph import Function, Rule, Value
from ...ir.types import Array, Type, is_float
from ...pytree import Structure
from ..callables import trampolines
from ..flow.call_boundary import Endless, object_of, packed
from ..objects import containers
from ..operations import builtin
from ..values.protocol import FunctionRef, Trace
from ..values.values import ArrayRef, Sym
from .derivative_call import Wrt, leaves_of, named, user_value
from .rule_parts import Backward, Forward, Primal, Step, Tangent
from .rule_wrappers import Caller, Entry, Like, Over

HIGHEST = 4
"""The maximum depth of nested differentiation of a function whose rules call it with ever new functions."""


# --- one call -------------------------------------------------------------------------------------

class Call:
    """A call of ``custom`` in the trace ``t``."""

    def __init__(self, t: Trace, custom: Any, args: list[Any]) -> None:
        self.t, self.custom, self.loc = t, custom, t.loc
        self.where = differentiated(t, custom, len(args))
        self.fixed = tuple(a for i, a in enumerate(args) if i not in self.where)
        self.wrt = [Wrt(t, args[i], apart=True) for i in self.where]
        self.primals = tuple(w.argument for w in self.wrt)
        self.base = self.trace(Primal, self.primals)
        if self.base.mutates:
            raise UnsupportedError(f"`{custom.__name__}` has a derivative of its own and changes what it is given or "
                                   "captures", builtin.location(custom.fun), "return the new value")
        index = {v: i for i, v in enumerate(self.base.params)}
        self.places = {x.value: index[x.value] for w in self.wrt for x in w.floats}
        self.shape = {x.value: index[x.value] for w in self.wrt for x, fixed in zip(w.leaves, w.structure.tags())
                      if fixed and isinstance(x, Sym)}

    def trace(self, step: type[Step], args: tuple[Any, ...]) -> FunctionRef:
        loc = builtin.location(step.function(self.custom))
        run = named(trampolines.run, self.custom.__name__, loc)
        given, _ = packed(self.t, args)
        ref: FunctionRef = self.t.call_traced(run, (step(self.where), self.custom, self.fixed, args), {})
        if step is not Primal and not set(ref.changed) <= set(map(object_of, given.refs)):
            raise UnsupportedError(f"a rule of `{self.custom.__name__}` changes what it captures", loc,
                                   "return the new value, or let the forward rule give it to the other one")
        return ref

    def likes(self, w: Wrt) -> dict[int, Like]:
        """The parameters for the leaves of an argument that have a cotangent or occur in it unchanged."""
        place = self.places | self.shape
        of = {i: place[x.value] for i, x in enumerate(w.leaves) if isinstance(x, Sym) and x.value in place}
        within = w.structure.within()
        return {i: Like(k, False, tuple((of[tag], variant) for tag, variant in within[i])) for i, k in of.items()}

    @property
    def structure(self) -> Structure:
        """The structure of the result."""
        found: Structure = self.base.value[0].static
        return found

    def run(self) -> Any:
        t, base = self.t, self.base
        if not any(map(is_float, base.result_types)):        # no derivative goes through it
            results = t.builder.call_then(base.name, base.params, base.result_types)
            return user_value(t, self.structure, leaves(t, base, results))
        entry = self._entry()
        entry.called |= not entry.done
        extras = [t.value(t.constant(a)) for a in entry.extras]
        results = t.builder.call_then(entry.name, [*base.params, *extras], base.result_types)
        return user_value(t, self.structure, leaves(t, base, results))

    def _entry(self) -> Entry:
        """The wrapper with the rule; made if this function has none yet."""
        t, known = self.t, self.t.session.customs
        below = t.module.functions[self.base.name]
        entry: Entry | None = known.get(self.base.name)
        if entry is not None and entry.of is below:
            return entry
        name = entry.name if entry is not None else t.module.unique_name(f"{self.base.name}.{self.custom.kind}")
        t.module.functions[name] = Function(name)            # reserves the name
        entry = known[self.base.name] = Entry(name, below)
        inside = t.session.inside_rules
        inside.append(of := builtin.code_of(self.custom.fun))
        try:
            made = of_integers if not self.places else beyond if inside.count(of) > HIGHEST else \
                RULES[self.custom.kind]
            made(self, entry)
        except BaseException:
            del known[self.base.name], t.module.functions[name]
            raise
        finally:
            inside.pop()
        entry.done = True
        if entry.called and entry.extras:
            t.unsupported(f"a rule of `{self.custom.__name__}` calls it, and uses an array or a number from outside",
                          "pass it as an argument")
        return entry


def differentiated(t: Trace, custom: Any, count: int) -> tuple[int, ...]:
    """The positions of the arguments that ``nondiff_argnums`` does not name."""
    for i in custom.nondiff:
        if not -count <= i < count:
            raise DifferentiationError(f"nondiff_argnums names argument {i} of `{custom.__name__}`, which is called "
                                       f"with {count}", t.loc)
    nondiff = {i % count for i in custom.nondiff}
    return tuple(i for i in range(count) if i not in nondiff)


def leaves(t: Trace, ref: FunctionRef, results: list[Value]) -> list[Any]:
    """The leaves of a step's result as its caller sees them."""
    return [t.read(x) if isinstance(x, ArrayRef) else x for x in ref.finish(t, results)[1:]]


def run(t: Trace, custom: Any, args: list[Any]) -> Any:
    """The result of a call.

    If rules call functions with rules in turn, arrays of literal sizes may meet others of the same function.  Then they
    are traced again for arrays of any size.
    """
    inside = any(not entry.done for entry in t.session.customs.values())
    where = differentiated(t, custom, len(args))             # other arguments may hold anything, also functions
    if inside or not any(_literal(x) for i in where for x in leaves_of(t, args[i])[0]):
        return Call(t, custom, args).run()
    tables: tuple[dict[Any, Any], ...] = t.session.functions, t.session.customs, t.module.functions, t.module.rules
    before = [dict(table) for table in tables]
    try:
        return Call(t, custom, args).run()
    except Endless:
        for table, known in zip(tables, before):             # drops traces that call unfinished functions
            table.clear()
            table.update(known)
    return Call(t, custom, [_of_any_size(t, a) if i in where else a for i, a in enumerate(args)]).run()


def _literal(x: Any) -> bool:
    return isinstance(x, Sym) and isinstance(x.type, Array) and any(n is not None and n != 1 for n in x.type.dims)


def _of_any_size(t: Trace, v: Any) -> Any:
    """A user value whose arrays have no literal sizes except 1."""
    values, structure = leaves_of(t, v)
    return user_value(t, structure, [_forgetting(t, x) if _literal(x) else x for x in values])


def _forgetting(t: Trace, x: Sym) -> Sym:
    kind = x.type
    assert isinstance(kind, Array)
    return Sym(t.builder.typed(x.value, Array(kind.dtype, tuple(n if n == 1 else None for n in kind.dims))), x.weak)


# --- the rules ------------------------------------------------------------------------------------

def vjp_rule(call: Call, entry: Entry) -> None:
    """The rule ``fwd(*args) -> (out, residuals)`` and ``bwd(residuals, cotangent) -> (cotangent, …)``."""
    t, base = call.t, call.base
    fwd, bwd = (builtin.location(r) for r in call.custom.rules[:2])
    forward = call.trace(Forward, call.primals)
    made: Structure = forward.value[0].static
    if made.type is not tuple or len(made.children) != 2:
        raise DifferentiationError(f"the forward rule of `{call.custom.__name__}` returns {made}", fwd,
                                   "return (result, residuals)")
    result = _matched(call.structure, made.children[0], fwd, "the result of the forward rule")
    _same_kinds(call, [forward.result_types[k] for k in result], fwd)
    n = len(result)
    stand_ins = [t.builder.undef(x) for x in forward.result_types]
    seen = leaves(t, forward, stand_ins)
    seeds = {i: t.builder.undef(x) for i, x in enumerate(base.result_types) if is_float(x)}
    cotangent = containers.import_(t, pytree.as_gradient(call.structure, [
        Sym(seeds[i], seen[k].weak) if i in seeds else seen[k] if fixed else None
        for i, (k, fixed) in enumerate(zip(result, call.structure.tags()))]))
    backward = call.trace(Backward, (user_value(t, made.children[1], seen[n:]), cotangent))
    given: Structure = backward.value[0].static
    if given.type is not tuple or len(given.children) != len(call.wrt):
        raise DifferentiationError(f"the backward rule of `{call.custom.__name__}` returns {given}", bwd,
                                   f"return a tuple of {len(call.wrt)}: a cotangent for each argument, None for zero")
    of: dict[int, tuple[Like, int | None]] = {}              # parameter → index of the result that is its cotangent
    tags: list[tuple[int, Like]] = []
    at = 0
    for w, s in zip(call.wrt, given.children):
        _refuse_tree(call, s, bwd)
        found = _derivative(w.structure, s, bwd, "the cotangent of an argument", at)
        at += s.count
        for i, like in call.likes(w).items():
            if is_float(base.params[like.number].type):
                of[like.number] = like, found[i]
            elif (tag := found[i]) is not None:
                tags.append((tag, like))
    tangents = [Tangents(call)] if call.custom.rules[2:] else []

    over = Over(call.t, call.base, call.custom, entry)
    shape = [k for k, fixed in zip(result, call.structure.tags()) if fixed]      # saved for the cotangent's own
    kept = [*range(n, len(forward.result_types)), *shape]
    first = over.function(forward, f"{entry.name}.fwd", [], fwd)
    first.give([*base.result_types, *(forward.result_types[k] for k in kept)], [*result, *kept])
    second = over.function(backward, f"{entry.name}.bwd", [*(stand_ins[k] for k in kept), *seeds.values()], bwd)
    wrt = sorted(of)
    second.give([base.params[i].type for i in wrt], [of[i][1] for i in wrt], [of[i][0] for i in wrt], tags)
    over.finish("vjp", [first, second, *(made.caller(over) for made in tangents)], wrt)


def _refuse_tree(call: Call, derivative: Structure, loc: Loc) -> None:
    if pytree.holds_columns(derivative):
        call.t.unsupported(f"a long list of derivatives by the rule of `{call.custom.__name__}`", "use an array")
    if pytree.holds_packed(derivative):              # its shape is not compared with the value's
        raise DifferentiationError(f"the rule of `{call.custom.__name__}` makes a tree of derivatives", loc,
                                   "give the function the numbers in an array")


def _same_kinds(call: Call, types: Sequence[Type], loc: Loc) -> None:
    """Checks that tags mean the same in a rule's result, whose leaves have these types, as in the function's."""
    for mine, type, within in zip(call.base.result_types, types, call.structure.within()):
        if within and _kind(mine) != _kind(type):
            raise UnsupportedError(f"a rule of `{call.custom.__name__}` has a result of several kinds, and they come "
                                   f"in another order than in its own: {type} where that has {mine}", loc,
                                   "choose among them by the same `if` as the function, written in the same order")


def _kind(type: Type) -> Any:
    """The properties that the types of one variant share (``values.union_merge.kind``)."""
    return (type.dtype, [n == 1 for n in type.dims]) if isinstance(type, Array) else None


def jvp_rule(call: Call, entry: Entry) -> None:
    """The rule ``rule(primals, tangents) -> (out, tangent)``."""
    made = Tangents(call)
    over = Over(call.t, call.base, call.custom, entry)
    over.finish("jvp", [made.caller(over)], made.wrt)


class Tangents:
    """The traced rule for forward mode."""

    def __init__(self, call: Call) -> None:
        t, self.call, self.loc = call.t, call, builtin.location(call.custom.rules[-1])
        self.dots, self.shape = ({v: t.builder.undef(v.type) for v in values} for values in (call.places, call.shape))
        self.wrt = sorted(call.places.values())
        self.rule = call.trace(Tangent, (call.primals, tuple(containers.import_(t, self._tree(w)) for w in call.wrt)))
        made: Structure = self.rule.value[0].static
        _refuse_tree(call, made.children[-1] if made.children else made, self.loc)
        if made.type is not tuple or len(made.children) != 2:
            raise DifferentiationError(f"the rule of `{call.custom.__name__}` returns {made}", self.loc,
                                       "return (result, tangent of the result)")
        self.result = _matched(call.structure, made.children[0], self.loc, "the result of the rule")
        _same_kinds(call, [self.rule.result_types[k] for k in self.result], self.loc)
        self.found = _derivative(call.structure, made.children[1], self.loc, "the tangent of the result",
                                 len(self.result))

    def _tree(self, w: Wrt) -> Any:
        """The tangent of an argument; leaves that are not floats occur in it unchanged."""
        return w.tree(lambda x: Sym(self.dots[x.value], x.weak),
                      lambda x: Sym(self.shape[x.value], x.weak) if isinstance(x, Sym) else x)

    def caller(self, over: Over) -> Caller:
        """The function that ``graph.Rule`` names."""
        call, result, found = self.call, self.result, self.found
        floats = [i for i, x in enumerate(call.base.result_types) if is_float(x)]
        by_place = {i: self.dots[v] for v, i in call.places.items()}
        only = over.function(self.rule, f"{over.entry.name}.jvp", [by_place[i] for i in self.wrt], self.loc,
                             {self.shape[v]: i for v, i in call.shape.items()})
        types = [*call.base.result_types, *(call.base.result_types[i] for i in floats)]
        likes = [Like(k, True, tuple((result[tag], variant) for tag, variant in within))
                 for k, within in zip(result, call.structure.within())]
        only.give(types, [*result, *(found[i] for i in floats)], [*[None] * len(result), *(likes[i] for i in floats)],
                  [(k, like) for k, like, fixed in zip(found, likes, call.structure.tags()) if fixed and k is not None])
        return only


def of_integers(call: Call, entry: Entry) -> None:
    """Wraps a function whose arguments have no float, without tracing its rule, which is never used.

    Captured values have no derivative here, as in all rules.
    """
    Over(call.t, call.base, call.custom, entry).finish("checkpoint", [], [])
    call.t.module.rules[entry.name] = Rule("checkpoint", (call.base.name,), ())


def beyond(call: Call, entry: Entry) -> None:
    """Wraps a function whose rule calls it with ever new functions: higher derivatives are refused."""
    of_integers(call, entry)
    call.t.module.functions[entry.name].attrs["ends"] = HIGHEST


RULES = {"custom_vjp": vjp_rule, "custom_jvp": jvp_rule}


def _matched(want: Structure, have: Structure, loc: Loc, what: str) -> list[int]:
    """The index of the leaf of ``have`` that corresponds to each leaf of ``want``."""
    error = DifferentiationError(f"{what} is {have}, and should be like {want}", loc)
    return [k for k in _numbers(want, have, 0, error, zeros=False) if k is not None]


def _derivative(want: Structure, have: Structure, loc: Loc, what: str, first: int) -> list[int | None]:
    """The same, with the leaves of ``have`` counted from ``first``; None stands for zeros."""
    error = DifferentiationError(f"{what} is {have}, and should be like {want}", loc)
    return list(_numbers(want, have, first, error, zeros=True))


def _numbers(want: Structure, have: Structure, first: int, error: DifferentiationError, zeros: bool,
             ) -> Iterator[int | None]:
    if zeros and have.type is pytree.NoneType:
        yield from [None] * want.count
    elif want.is_leaf and have.is_leaf:
        yield first
    elif want.is_leaf or have.is_leaf or len(want.children) != len(have.children) or (
            want.type is not have.type and {want.type, have.type} != {tuple, list}):
        raise error
    else:
        parts: Iterable[tuple[Structure, int]] = zip(have.children, accumulate((c.count for c in have.children),
                                                                               initial=first))
        if issubclass(have.type or object, dict):            # by key: dicts may differ in order
            keyed = dict(zip(have.static, parts))
            if set(keyed) != set(want.static):
                raise error
            parts = [keyed[k] for k in want.static]
        for child, (part, at) in zip(want.children, parts):
            yield from _numbers(child, part, at, error, zeros)
