"""``operator``, ``itertools``, ``functools`` and other functions of the standard library that support traced values.

``itertools`` and sorting need lengths that are known while tracing; for run-time lengths there are arrays.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import pytree
from ..arrays import library, signatures
from ..arrays.library import marks
from ..arrays.library.scalar import integers
from ..arrays.rules import promotion, ufuncs
from ..captured.user_classes import is_user_class
from ..columns.recursive_types import family_of
from ..objects import containers, growing_lists, iteration, list_changes, list_elements, special_methods
from ..objects.list_rows import Row
from ..objects.long_lists import LongList
from ..syntax.comprehensions import Generator
from ..values.closures import Stream
from ..values.lattice import is_scalar, rebuild
from ..values.protocol import Trace
from ..values.values import ArrayRef, DictObj, Instance, ListObj, Sym
from . import argument_errors

Rule = Callable[..., Any]
MOST_SORTED = 64                        # 2016 comparisons


# --- operator ---------------------------------------------------------------------------------------

def _binary(op: str) -> Rule:
    return lambda t, a, b: t.binary(op, a, b)


def _in_place(op: str) -> Rule:
    return lambda t, a, b: t.in_place(op, a, b, t.loc)


def _unary(op: str) -> Rule:
    return lambda t, a: t.unary(op, a)


def _compare(op: str) -> Rule:
    return lambda t, a, b: t.compare(op, a, b)


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_KEYWORDS = ("and", "or", "not")
_OPERATOR: dict[Any, Rule] = {
    **{getattr(operator, f"{op}_" if op in _KEYWORDS else op): _binary(op) for op in BINARY},
    **{getattr(operator, f"i{op}"): _in_place(op) for op in BINARY},
    **{getattr(operator, op): _unary(op) for op in ("neg", "pos", "invert", "abs")},
    **{getattr(operator, op): _compare(op) for op in ("eq", "ne", "lt", "le", "gt", "ge")},
    operator.is_: _compare("is"), operator.is_not: _compare("is not"), operator.not_: lambda t, a: t.not_(a),
    operator.truth: lambda t, a: t.truth(a), operator.contains: lambda t, a, b: t.compare("in", b, a),
    operator.concat: _binary("add"), operator.iconcat: _in_place("add"),
    operator.getitem: lambda t, a, b: t.getitem(a, b), operator.setitem: lambda t, a, b, c: t.setitem(a, b, c),
    operator.delitem: lambda t, a, b: t.delitem(a, b, t.loc),
}


def _one_or_several(found: list[Any]) -> Any:
    return found[0] if len(found) == 1 else tuple(found)


def _itemgetter(t: Trace, fun: Any, v: Any) -> Any:
    return _one_or_several([t.getitem(v, i) for i in fun.__reduce__()[1]])


def _attrgetter(t: Trace, fun: Any, v: Any) -> Any:
    paths = fun.__reduce__()[1]
    return _one_or_several([functools.reduce(t.getattr, path.split("."), v) for path in paths])


def _methodcaller(t: Trace, fun: Any, v: Any) -> Any:
    made, args = fun.__reduce__()
    keywords: dict[str, Any] = {}
    if isinstance(made, functools.partial):
        args, keywords = (*made.args, *args), made.keywords
    return t.call(t.getattr(v, args[0]), *args[1:], **keywords)


# Callable objects of the standard library, by class; the object is the first argument of the rule.
CALLABLE: dict[type, Rule] = {
    operator.itemgetter: _itemgetter, operator.attrgetter: _attrgetter, operator.methodcaller: _methodcaller,
}


# --- itertools --------------------------------------------------------------------------------------

def _listing(fun: Callable[..., Any]) -> Rule:
    """The rule of a function that moves elements without inspecting them: Python runs it on boxed elements."""
    def rule(t: Trace, /, *args: Any, **kwargs: Any) -> Any:
        columns = [a if isinstance(a, int) else _boxed(t.iterate(a)) for a in args]
        return special_methods.stream(t, [_unboxed(x) for x in fun(*columns, **kwargs)])
    return rule


class _Box:
    """An element, hidden from code that would compare it or test its truth."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


def _boxed(items: Sequence[Any]) -> list[_Box]:
    return [_Box(x) for x in items]


def _unboxed(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_unboxed, x))
    return x.held if isinstance(x, _Box) else x


def _from_iterable(t: Trace, v: Any) -> Any:
    return special_methods.stream(t, [x for part in t.iterate(v) for x in t.iterate(part)])


def _accumulate(t: Trace, v: Any, func: Any = operator.add, *, initial: Any = None) -> Any:
    items = ([] if initial is None else [initial]) + t.iterate(v)
    return special_methods.stream(t, list(itertools.accumulate(items, lambda a, b: t.call(func, a, b))))


def _repeat(t: Trace, v: Any, times: Any = None) -> Any:
    if not isinstance(times, int):
        t.unsupported("`itertools.repeat` without a number of times that is known while compiling", "`np.full(n, x)`")
    return special_methods.stream(t, [v] * times)


def _starmap(t: Trace, fun: Any, v: Any) -> Any:
    return special_methods.stream(t, [t.call(fun, *t.iterate(args)) for args in t.iterate(v)])


def _known(t: Trace, fun: Any, x: Any, name: str) -> bool:
    truth = t.truth(x if fun is None else t.call(fun, x))
    if not isinstance(truth, bool):
        t.unsupported(f"`{name}` by a condition that is only known at run time", "use `np.where`, or `if` in a loop")
    return bool(truth)


def _filter(t: Trace, fun: Any, v: Any) -> Any:
    return special_methods.stream(t, [x for x in t.iterate(v) if _known(t, fun, x, "filter")])


def _filterfalse(t: Trace, fun: Any, v: Any) -> Any:
    return special_methods.stream(t, [x for x in t.iterate(v) if not _known(t, fun, x, "itertools.filterfalse")])


def _first_of(t: Trace, v: Any, by: str, choose: Callable[[Any], Iterator[Any]]) -> Any:
    """The elements that ``choose`` takes from an iterator; the user's iterator continues after those taken."""
    if not special_methods.is_iterator(v):
        return special_methods.stream(t, list(choose(iter(iteration.some_of(t, v, by)))))
    items = special_methods.left(t, v)
    rest = iter(items)
    chosen = list(choose(rest))
    special_methods.take(t, v, len(items) - len(list(rest)))
    return special_methods.stream(t, chosen)


def _takewhile(t: Trace, fun: Any, v: Any) -> Any:
    return _first_of(t, v, "takewhile",
                     lambda items: itertools.takewhile(lambda x: _known(t, fun, x, "takewhile"), items))


def _dropwhile(t: Trace, fun: Any, v: Any) -> Any:
    return special_methods.stream(t, list(itertools.dropwhile(lambda x: _known(t, fun, x, "dropwhile"), t.iterate(v))))


def _islice(t: Trace, v: Any, *bounds: Any) -> Any:
    if not all(b is None or isinstance(b, int) for b in bounds):
        t.unsupported("`itertools.islice` with bounds that are only known at run time", "a slice of an array")
    return _first_of(t, v, "islice", lambda items: itertools.islice(items, *bounds))


_ITERTOOLS: dict[Any, Rule] = {
    **{fun: _listing(fun) for fun in (itertools.product, itertools.permutations, itertools.combinations,
                                      itertools.combinations_with_replacement, itertools.chain, itertools.pairwise,
                                      itertools.zip_longest)},
    itertools.chain.from_iterable: _from_iterable, itertools.accumulate: _accumulate, itertools.repeat: _repeat,
    itertools.starmap: _starmap, itertools.islice: _islice, itertools.takewhile: _takewhile, filter: _filter,
    itertools.dropwhile: _dropwhile, itertools.filterfalse: _filterfalse,
}


# --- sorting ----------------------------------------------------------------------------------------

def ordered(t: Trace, items: Sequence[Any], key: Any = None, reverse: bool = False) -> list[Any]:
    """The items in stable order; run-time values are sorted by exchanging neighbours."""
    rows = [(x if key is None else t.call(key, x), x) for x in items]
    if all(containers.is_static(k) and not special_methods.compares_itself(t, k, "__lt__", "__gt__") for k, _ in rows):
        return [x for _, x in t.native(sorted, rows, key=operator.itemgetter(0), reverse=reverse)]
    if len(rows) > 2 and any(isinstance(x, (ListObj, DictObj, Instance)) for x in items):
        t.unsupported("sorts lists, dicts or objects by what is only known at run time", "sort tuples of numbers")
    if len(rows) > MOST_SORTED:
        as_columns = growing_lists.columns_of(t, items)
        if as_columns is not None and isinstance(reverse, bool):
            found = _in_order(t, as_columns, key, reverse)
            return [found.element(t, t.sym(k)) for k in range(len(rows))]
        t.unsupported(f"sorts more than {MOST_SORTED} values that are only known at run time",
                      "put them into an array: `np.sort(a)`, `a[np.argsort(key)]`")
    for last in range(len(rows) - 1, 0, -1):
        for i in range(last):
            one, other = rows[i], rows[i + 1]
            wrong = t.truth(t.compare("lt", one[0], other[0]) if reverse else t.compare("lt", other[0], one[0]))
            if all(map(is_scalar, (*one, *other))):
                rows[i], rows[i + 1] = (t.choose_value(wrong, *pair) for pair in ((other, one), (one, other)))
            else:
                rows[i], rows[i + 1] = t.choose_value(wrong, (other, one), (one, other))
    return [x for _, x in rows]


def _in_order(t: Trace, xs: LongList, key: Any, reverse: bool) -> LongList:
    """A long list in stable order of what ``key`` gives: numbers, or tuples of numbers."""
    keys = xs if key is None else growing_lists.settled(t, t.call(_keys_of, key, xs))
    if not isinstance(keys, LongList) or not _is_ordered(keys.kind.element) or any(c.array for c in keys.kind.cells):
        t.unsupported("sorts a list of a length that is only known at run time by what are neither numbers nor tuples "
                      "or lists of numbers", "a `key` that is a number")
    places = t.call(_places, tuple(keys.columns), reverse)
    return LongList(xs.kind, [t.getitem(c, places) for c in xs.columns])


def _is_ordered(s: pytree.Structure) -> bool:
    plain = s.type is list or isinstance(s.type, type) and issubclass(s.type, tuple)
    return s.is_leaf or plain and all(map(_is_ordered, s.children))


def _keys_of(key: Any, xs: Any) -> Any:
    return [key(x) for x in xs]


def _places(columns: Any, reverse: bool) -> Any:
    """The places of the rows in order; equal rows stay in order also where that is reversed."""
    if reverse:
        backwards = np.lexsort(tuple([c[::-1] for c in reversed(columns)]))
        return (len(backwards) - 1 - backwards)[::-1]
    return np.lexsort(tuple(reversed(columns)))


def _sorted(t: Trace, v: Any, *, key: Any = None, reverse: bool = False) -> Any:
    if (isinstance(v, Generator) and key is None or iteration.is_counted(v) and iteration.known_count(t, v) is None):
        v = t.call(list, v)
    v = growing_lists.settled(t, v)
    if isinstance(v, LongList) and isinstance(reverse, bool):
        if key is None and v.holds_numbers():
            return growing_lists.changeable(t, v.sorted(t, reverse))
        return growing_lists.changeable(t, _in_order(t, v, key, reverse))
    if iteration.is_counted(v) and iteration.known_count(t, v) is None:
        t.unsupported("`sorted` of a length that is only known at run time",
                      "put the numbers into an array: `np.sort(a)`, `a[np.argsort(key)]`")
    return t.new_list(ordered(t, t.iterate(v), key, reverse))


def _reduce(t: Trace, fun: Any, v: Any, *start: Any) -> Any:
    """``functools.reduce``; over a run-time length it is a loop, in which the accumulator must keep its type."""
    if iteration.is_counted(v):
        all_of = _fold_stream if isinstance(v, Stream) else _fold_all
        return t.call(_fold, fun, v, *start) if start else t.call(all_of, fun, v)
    found = [*start, *t.iterate(v)]
    if not found:
        raise TypeError("reduce() of empty iterable with no initial value")
    return functools.reduce(lambda a, b: t.call(fun, a, b), found)


def _fold(fun: Any, items: Any, start: Any) -> Any:
    for x in items:
        start = fun(start, x)
    return start


def _fold_all(fun: Any, items: Any) -> Any:
    if len(items) == 0:
        raise TypeError("reduce() of empty iterable with no initial value")
    out = items[0]
    for i in range(1, len(items)):
        out = fun(out, items[i])
    return out


def _fold_stream(fun: Any, items: Any) -> Any:
    empty = True
    for x in items:
        if empty:
            out, empty = x, False
        else:
            out = fun(out, x)
    if empty:
        raise TypeError("reduce() of empty iterable with no initial value")
    return out


# --- copies ---------------------------------------------------------------------------------------

def _copied(t: Trace, v: Any, part: Callable[[Any, Any], Any]) -> Any:
    """A new object with the parts of ``v``, each mapped by ``part``."""
    v = t.opened(v)
    if isinstance(v, ArrayRef):
        return t.call(t.getattr(v, "copy"))
    if isinstance(v, Row):
        return t.call(list, v)
    if list_elements.contents(t, v) is not None:
        out = t.new_list(())
        t.state[out] = list_elements.contents(t, v)
        return out if part is _deepcopy else list_changes.copy(t, v)
    if isinstance(v, ListObj):
        return t.new_list([part(t, x) for x in t.contents(v)])
    if isinstance(v, DictObj):
        return t.new_dict({k: part(t, x) for k, x in t.contents(v).items()})
    if isinstance(v, Instance):
        return _instance(t, v.cls, {k: part(t, x) for k, x in t.contents(v).items()})
    if _taken_apart(v):
        return _instance(t, type(v), {k: part(t, t.lift(x)) for k, x in vars(v).items()})
    return rebuild(v, tuple([part(t, x) for x in v])) if isinstance(v, tuple) else v


def _instance(t: Trace, cls: type, content: dict[str, Any]) -> Instance:
    made = Instance(cls)
    t.state[made] = content
    return made


def _deepcopy(t: Trace, v: Any) -> Any:
    return _copied(t, v, _deepcopy)


def _taken_apart(v: Any) -> bool:
    """True if Python copies a captured object field by field."""
    cls = type(v)
    own = ("__copy__", "__deepcopy__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__slots__")
    return (is_user_class(cls) and not isinstance(v, (tuple, type)) and hasattr(v, "__dict__")
            and family_of(cls) is None and not any(name in vars(c) for c in cls.__mro__[:-1] for name in own))


# --- NumPy's functions of types ---------------------------------------------------------------------

def _of_types(fun: Any) -> Rule:
    def rule(t: Trace, /, *args: Any, **kwargs: Any) -> Any:
        if not all(map(containers.is_static, (*args, *kwargs.values()))):
            t.unsupported(f"`np.{fun.__name__}` of values that are only known at run time", "a dtype: `x.dtype`")
        return t.lift(t.native(fun, *args, **kwargs))
    return rule


def _isscalar(t: Trace, element: Any) -> bool:
    return is_scalar(element) or containers.is_static(element) and np.isscalar(element)


def _iterable(t: Trace, y: Any) -> bool:
    return not is_scalar(y) and (not containers.is_static(y) or np.iterable(y) or isinstance(y, range))


def _of_dtypes(fun: Any) -> Rule:
    """The rule of ``np.result_type`` and similar functions, which depend only on dtypes and kinds of numbers."""
    def rule(t: Trace, *args: Any, **kwargs: Any) -> Any:
        return t.native(fun, *(_specimen(t, a) for a in args), **kwargs)
    return rule


def _specimen(t: Trace, v: Any) -> Any:
    """A value with the same dtype: the dtype of an array, a sample of a Python number."""
    v = t.read(v) if isinstance(v, ArrayRef) else v
    return v.scalar.np if isinstance(v, Sym) and not v.weak else containers.sample(v) if isinstance(v, Sym) else v


# --- other functions --------------------------------------------------------------------------------

def _written(fun: Any, substitute: Callable[..., Any]) -> Rule:
    """The rule of a function that the library has in Python; Python evaluates it if the arguments are known."""
    def rule(t: Trace, /, *args: Any, **kwargs: Any) -> Any:
        if all(map(containers.is_static, args)) and all(map(containers.is_static, kwargs.values())):
            return t.native(fun, *args, **kwargs)
        return t.call(substitute, *args, **kwargs)
    return rule


def _of_numpy(fun: Any, substitute: Callable[..., Any]) -> Rule:
    """The rule of a NumPy function that the library has in Python; it is always traced, and supports ``out``."""
    def rule(t: Trace, /, *args: Any, **kwargs: Any) -> Any:
        call = signatures.of_function(fun, substitute, 0)
        args, kwargs, outs = argument_errors.bound(t, call, fun, args, kwargs)         # type: ignore[assignment]
        return argument_errors.out_of(t, outs, t.call(substitute, *args, **kwargs), fun)
    return rule


def _constant(t: Trace, x: Any) -> Any:
    if isinstance(x, ArrayRef):
        return t.new_array(Sym(t.builder.stop(t.read(x).value), False))
    return Sym(t.builder.stop(x.value), x.weak) if isinstance(x, Sym) else x


def cached(t: Trace, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls a function with ``lru_cache``: evaluates it if the arguments are known while tracing, else traces it.

    A recursive function is refused, since without its cache it may take exponential time.
    """
    if all(map(containers.is_static, args)) and all(map(containers.is_static, kwargs.values())):
        return t.lift(t.native(fun, *args, **kwargs))
    if fun.__name__ in fun.__wrapped__.__code__.co_names + fun.__wrapped__.__code__.co_freevars:
        t.unsupported(f"`{fun.__name__}`, which calls itself and keeps its results: compiled code does not keep them",
                      f"`{fun.__name__}.__wrapped__`, which keeps no results; or an array of results")
    return t.call(fun.__wrapped__, *args, **kwargs)


def pow_(t: Trace, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return t.binary("pow", base, exp)
    return _written(pow, integers.pow_modulo)(t, base, exp, mod)


TABLE: dict[Any, Rule] = {
    **_OPERATOR, **_ITERTOOLS, sorted: _sorted, functools.reduce: _reduce, pow: pow_,
    **{fun: _of_types(fun) for fun in (np.dtype, np.finfo, np.iinfo, np.isdtype, np.issubdtype)},
    np.isscalar: _isscalar,
    **{fun: _of_dtypes(fun) for fun in (np.result_type, np.promote_types, np.can_cast)}, np.iterable: _iterable,
    np.isrealobj: lambda t, x: True, np.iscomplexobj: lambda t, x: False, slice: lambda t, *bounds: slice(*bounds),
    copy.copy: lambda t, x: _copied(t, x, lambda t, part: part), copy.deepcopy: _deepcopy,
    functools.wraps: lambda t, *args, **kwargs: lambda fun: fun,      # names and documentation are not needed here
    functools.update_wrapper: lambda t, wrapper, *args, **kwargs: wrapper,
    **{fun: _written(fun, substitute) for fun, substitute in library.WRITTEN.items()},
    **{fun: _written(fun, substitute) for fun, substitute in library.LISTS.items()},
    **{fun: _of_numpy(fun, substitute) for fun, substitute in library.NUMPY.items()},
    marks.constant: _constant, marks.on_device: lambda t: t.options.target != "cpu",
    marks.refuse: lambda t, what, instead: t.unsupported(what, instead),
    marks.axis_of: promotion.axis_arg, marks.positive_part: lambda t, x: t.apply_rule(ufuncs.relu, x),
}
