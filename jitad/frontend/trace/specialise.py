"""Specialisations: chooses the IR function for a call of a Python function, and its parameters and results.

The run-time leaves of the arguments are the parameters (``flow.call_boundary``).  The results are the leaves of the
result, and the contents of those objects of the caller that the callee has changed.

A recursive call uses the result known from the previous round of tracing.  In the first round there is none, and the
path is assumed not to return.  Rounds are repeated until the result stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from ...errors import JitadError, TypeInferenceError
from ...ir.graph import ExcInfo, Function, Value
from ..arrays import library
from ..flow.call_boundary import Endless, Inwards, Packer, Transfer, object_of, packed, static_key
from ..objects import list_elements
from ..trees import closure_nesting
from ..values import lattice
from ..values.closures import Fn
from ..values.growing import Growing, noted_other
from ..values.lattice import UNBOUND, is_number, same
from ..values.protocol import FunctionRef, Trace
from ..values.session import Outcome, Specialisation
from ..values.values import ArrayObj, ArrayRef, Choice, ListObj, Obj, Slot, Sym, activate

ROUNDS = 12
VARIANTS = 16           # most specialisations that differ in numbers only, before those become run-time values


# --- specialisations ----------------------------------------------------------------------------------

def call(t: Trace, fn: Fn, bound: dict[str, Any]) -> Any:
    """Records a call."""
    spec, packer = specialisation(t, fn, bound)
    outcome = spec.outcome
    if outcome is None:
        return _call_for_good(t, spec, packer) if spec.done else t.die()
    results = t.builder.call_then(spec.name, _arguments(t, spec, packer), outcome.types)
    return _finish(t, spec, outcome, packer, results)


def reference(t: Trace, fn: Fn, bound: dict[str, Any], args: list[Any]) -> FunctionRef:
    """Traces a function for these arguments without calling it."""
    spec, packer = specialisation(t, fn, bound)
    outcome = spec.outcome
    if outcome is None:
        if not spec.done or any(not d.done for d in spec.depends):      # its result is not known yet
            return t.die()
        return _call_for_good(t, spec, packer)
    names = dict(zip(outcome.objs, packer.refs))
    return FunctionRef(spec.name, _arguments(t, spec, packer), list(outcome.types),
                       lambda t, results: _finish(t, spec, outcome, packer, results),
                       [object_of(names[o]) for o in outcome.changed], outcome.value, spec.consts)


def _call_for_good(t: Trace, spec: Specialisation, packer: Packer) -> NoReturn:
    """Records a call that does not return, but raises."""
    t.builder.call(spec.name, _arguments(t, spec, packer), after := t.func.new_block("never"))
    t.builder.at(after)
    t.raise_info(ExcInfo("RuntimeError", "a function that does not return has returned", t.loc))


def _arguments(t: Trace, spec: Specialisation, packer: Packer) -> list[Value]:
    return [s.value for s in packer.leaves] + [t.value(t.constant(a)) for a in spec.consts]


def _finish(t: Trace, spec: Specialisation, outcome: Outcome, packer: Packer, results: list[Value]) -> Any:
    """The result as the caller sees it; writes changed objects back."""
    left = iter(results)
    known: dict[Obj, Any] = dict(zip(outcome.objs, packer.refs))
    transfer = Transfer(outcome.state, t, lambda s: Sym(next(left), s.weak), known)
    for place, obj in spec.const_objs.items():
        known[obj] = t.constant(place)
    value = transfer.value(outcome.value)
    for obj in outcome.changed:
        content, mine = transfer.content(obj), known[obj]
        if isinstance(mine, ArrayRef):
            _overwrite(t, mine, content)
        elif isinstance(mine, Slot) and mine.readonly:
            t.unsupported(f"assigns to the variable `{mine.name}` of a function: {mine.readonly}",
                          "write the `if` around the call")
        else:
            t.state[mine] = content
            if isinstance(mine, ListObj):
                noted_other(t, mine)
            if content is UNBOUND:
                mine.bound = False
    for k, why in outcome.frozen:
        list_elements.freeze_object(t, object_of(packer.refs[k]), why)
    for obj in transfer.made:
        others = [known[o] for o, _ in obj.maybe if o in known]
        objs = [o.obj if isinstance(o, ArrayRef) else o for o in others]
        known[obj].maybe = tuple((o, t.state.get(o)) for o in objs)
    return value


def _overwrite(t: Trace, ref: ArrayRef, content: Sym) -> None:
    t.overwrite(ref, content)


def specialisation(t: Trace, fn: Fn, bound: dict[str, Any]) -> tuple[Specialisation, Packer]:
    """The IR function for these arguments, traced now if there is none."""
    session = t.session
    bound = _generalise(t, fn, {k: t.trimmed(v) for k, v in bound.items()})
    lists = _generalised_lists(t, fn, bound)
    cells = tuple((k, static_key(t, v)) for k, v in fn.cells.items())
    packer, keys = packed(t, (*fn.slots.values(), *bound.values(), *t.heaps.values()))
    if _generalised_state(t, fn, packer):
        packer, keys = packed(t, (*fn.slots.values(), *bound.values(), *t.heaps.values()))
    key = (fn.code, cells, tuple(fn.slots), *keys)
    spec = session.functions.get(key)
    if spec is None:
        around = sum(s.key[0] is fn.code for s in session.stack)
        if around >= closure_nesting.depth(t):
            closure_nesting.check(t, t.state, bound.values())
        if around > 40:
            raise TypeInferenceError(f"`{fn.code.name}` calls itself with ever new types or structures", t.loc)
        spec = _trace(t, fn, bound, lists, key, packer)
    if not spec.done:
        spec.hit = True
    for s in session.stack:                          # the enclosing functions rely on a result that may still change
        for d in ({spec} if not spec.done else spec.depends):
            if not d.done and s.level > d.level:
                s.depends.add(d)
    return spec, packer


def _generalise(t: Trace, fn: Fn, bound: dict[str, Any]) -> dict[str, Any]:
    """Turns numbers that change between recursive calls into run-time values; bools have only two values."""
    for s in t.session.stack:
        if s.key[0] is fn.code:
            bound = {k: _blur(t, v, s.args.get(k, UNBOUND)) for k, v in bound.items()}
    variants = t.session.variants
    own = str(fn.globals.get("__package__")).startswith(library.__name__)     # there a number may be an axis or a rank
    if variants.get(fn.code, 0) > VARIANTS and not own:
        bound = {k: t.sym(v) if is_number(v) else v for k, v in bound.items()}
    return bound


def _generalised_lists(t: Trace, fn: Fn, bound: dict[str, Any]) -> dict[str, Any]:
    """The contents of a function's lists, with this trace, which has their elements.

    A list whose length changes between recursive calls gets a run-time length.
    """
    given = {**bound, **{name: t.state.get(slot) for name, slot in fn.slots.items()}}
    lists = {name: v for name, v in given.items() if type(v) is ListObj and not v.readonly}
    for s in t.session.stack:
        for name, (outer, before) in s.lists.items() if s.key[0] is fn.code and lists else ():
            content = t.state.get(lists[name]) if name in lists else None
            if isinstance(content, tuple) and (type(before) is Growing or len(content) != len(before)):
                kinds = [list_elements.kind_of(trace, [xs], True) for trace, xs in ((t, content), (outer, before))
                         if xs != ()]
                known = [kind for kind in kinds if kind is not None]
                to = list_elements.joined(known, True) if len(known) == len(kinds) else None
                if to is not None:
                    t.state[lists[name]] = list_elements.grown(t, content, to)
    return {name: (t, content) for name, v in lists.items() if isinstance(content := t.state.get(v), (tuple, Growing))}


def _generalised_state(t: Trace, fn: Fn, packer: Packer) -> bool:
    """Turns numbers in variables, lists, dicts and objects that change between recursive calls into run-time values.

    Returns True if there are such.
    """
    around = [s for s in t.session.stack if s.key[0] is fn.code and len(s.contents) == len(packer.refs)]
    found = False
    for s in around:
        for ref, before in zip(packer.refs, s.contents):
            now = t.state.get(ref) if isinstance(ref, Obj) and not ref.readonly else None
            new = {k: _blur(t, v, before.get(k)) for k, v in now.items()} if type(now) is type(before) is dict \
                else _blur(t, now, before)
            if not same(new, now):
                t.state[ref] = new
                found = True
    return found


def _blur(t: Trace, v: Any, before: Any) -> Any:
    both = isinstance(v, bool) and isinstance(before, bool)
    if is_number(v) and (isinstance(before, Sym) or (is_number(before) and not both and not same(v, before))):
        return t.sym(v) if not isinstance(before, Sym) or (before.scalar, before.weak) == lattice.scalar_type(v) else v
    if isinstance(v, tuple) and isinstance(before, tuple) and len(v) == len(before):
        return lattice.rebuild(v, tuple(_blur(t, x, y) for x, y in zip(v, before)))
    return v


# --- tracing ------------------------------------------------------------------------------------------

def _trace(t: Trace, fn: Fn, bound: dict[str, Any], lists: dict[str, Any], key: Any,
           packer: Packer) -> Specialisation:
    session = t.session
    name = session.module.unique_name(fn.code.name if fn.code.name.isidentifier() else "lambda_")
    contents = [t.state.get(ref) if isinstance(ref, Obj) else None for ref in packer.refs]
    spec = Specialisation(name, key, len(session.stack), bound, lists, contents)
    session.functions[key] = spec
    session.variants[fn.code] = session.variants.get(fn.code, 0) + 1
    session.module.functions[name] = Function(name)           # reserves the name
    session.stack.append(spec)
    try:
        for round_ in range(ROUNDS):
            before = spec.outcome
            spec.hit = False
            spec.outcome = _round(t, spec, fn, bound, packer)
            if not spec.hit or (before is not None and spec.outcome is not None and before.shape == spec.outcome.shape):
                break
            if spec.outcome is not None and round_ >= closure_nesting.depth(t):
                closure_nesting.check(t, spec.outcome.state, [spec.outcome.value])
            if spec.outcome is None:
                if any(d is not spec for d in spec.depends):
                    break                            # an outer round will know more
                raise Endless(f"`{fn.code.name}` calls itself on every path, so that its result has no type",
                              fn.code.loc, "return a value on some path without recursion")
            _forget(session, spec)
        else:
            raise TypeInferenceError(f"the result of the recursive function `{fn.code.name}` finds no type",
                                     fn.code.loc)
    except BaseException:
        del session.functions[key]
        session.module.functions.pop(name, None)
        raise
    finally:
        session.stack.pop()
    spec.done = True
    spec.depends.discard(spec)
    if fn.code in session.jitted:
        session.shared[name] = session.jitted[fn.code]
    return spec


def run_body(t: Trace, fn: Fn, bound: dict[str, Any]) -> None:
    """Traces the body, whose ends are ``t.returns``.  Adds its line to an exception of the user's code."""
    try:
        t.survives(lambda: fn.code.body(fn.code.frame(t, fn, bound)))
    except Exception as e:
        if not isinstance(e, JitadError) and not getattr(e, "__notes__", None):
            e.add_note(f'while tracing File "{t.loc.file}", line {t.loc.line}, in {t.loc.function}\n{t.loc.excerpt()}')
        raise


def _forget(session: Any, spec: Specialisation) -> None:
    """Drops the functions that were traced with an earlier result of ``spec``."""
    for key, other in list(session.functions.items()):
        if spec in other.depends and other.done:
            del session.functions[key]
            session.module.functions.pop(other.name, None)


def _round(t: Trace, spec: Specialisation, fn: Fn, bound: dict[str, Any], packer: Packer) -> Outcome | None:
    """Traces the function once, with the result known so far."""
    func = Function(spec.name)
    func.loc = fn.code.loc
    t.session.module.functions[spec.name] = func
    inner = t.inner(func)
    inner.depth = 0
    inner.options = replace(t.session.options, in_range=fn.code.in_range)
    known: dict[Obj, Any] = {}
    transfer = Inwards(t, inner, known, packer)
    slots = {n: transfer.value(s) for n, s in fn.slots.items()}
    args = {n: transfer.value(v) for n, v in bound.items()}
    inner.heaps = {family: transfer.value(heap) for family, heap in t.heaps.items()}
    spec.objs = transfer.order
    inner.pinned = list(spec.objs) + ([] if t.heaps else inner.begin_heaps())
    initial = {o: inner.state.get(o, UNBOUND) for o in spec.objs}
    readonly = [o.readonly for o in spec.objs]
    for place in spec.consts:                        # so that recursive calls find them in order
        inner.constant(place)
    previous = spec.outcome
    inside = Fn(fn.code, slots, fn.defaults, fn.kw_defaults, fn.globals, fn.cells)
    with activate(inner):
        run_body(inner, inside, args)
        spec.consts = list(inner.consts)
        spec.const_objs = {k: ref.obj for k, ref in inner.consts.items() if isinstance(ref, ArrayRef)}
        if not inner.returns:
            return None
        inner.join(inner.returns, [inner.result, *inner.pinned], "exit")
        frozen = tuple((k, o.readonly) for k, o in enumerate(spec.objs) if o.readonly != readonly[k])
        return _outcome(inner, spec, initial, previous, func, frozen)


def _outcome(t: Trace, spec: Specialisation, initial: dict[Obj, Any], previous: Outcome | None,
             func: Function, frozen: tuple[tuple[int, str], ...]) -> Outcome:
    value = t.load(t.result)
    if spec.hit:
        value = _dynamic(t, value)
    changed = [o for o in spec.objs if not same(t.state.get(o, UNBOUND), initial[o])]
    if previous is not None:
        changed = [o for k, o in enumerate(spec.objs) if o in changed or k in _places(previous)]
    leaves: list[Sym] = []

    def collect(s: Sym) -> Sym:
        leaves.append(s)
        return s
    sink = t.inner(func)
    arrays = [ref.obj for ref in t.consts.values() if isinstance(ref, ArrayRef)]
    walk = Transfer(t.state, sink, collect, {o: o for o in (*spec.objs, *arrays)})
    walk.value(value)
    for o in changed:
        walk.content(o)
    outcome = _shaped(t, spec, value, changed, leaves, frozen)
    t.builder.ret([s.value for s in leaves])
    func.result_types = [s.type for s in leaves]
    for o in changed:
        start = initial[o]
        if isinstance(o, ArrayObj) and isinstance(start, Sym):
            func.own.add(start.value.index)
    return outcome


def _places(outcome: Outcome) -> Iterable[int]:
    places: tuple[int, ...] = outcome.shape[1]
    return places


def _shaped(t: Trace, spec: Specialisation, value: Any, changed: list[Obj], leaves: list[Sym],
            frozen: tuple[tuple[int, str], ...]) -> Outcome:
    places = tuple(k for k, o in enumerate(spec.objs) if o in changed)
    _, (key,) = packed(t, (value,), spec.objs)
    contents = tuple((s.type, s.weak) for s in leaves)
    shape = (key, places, contents, tuple(spec.consts), frozen)
    return Outcome(value, spec.objs, changed, t.state, frozen, [s.type for s in leaves], shape)


def _dynamic(t: Trace, v: Any) -> Any:
    """Turns numbers in a recursive function's result into run-time values: the rounds would not end otherwise."""
    if is_number(v):
        return t.sym(v)
    if isinstance(v, tuple):
        return lattice.rebuild(v, tuple(_dynamic(t, x) for x in v))
    if type(v) is Choice:
        return v.with_parts(tuple(_dynamic(t, x) for x in v.parts()))
    return v
