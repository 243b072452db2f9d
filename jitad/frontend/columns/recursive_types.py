"""Recursive dataclasses and their families.

A class is *recursive* if its annotations lead back to it.  Its *family* is the set of classes that one store holds: the
recursive classes that its annotations lead to, and the classes that are alternatives to one of them in a field (``Num``
in ``Expr = Num | Add``).  An annotation that names a base class includes its subclasses.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

NoneType = type(None)


class Family:
    """Classes whose objects refer to each other.  A reference is ``row * width + class number``, −1 for ``None``.

    ``functions``: the classes are boxed functions (``boxed_closures``).
    """

    functions = False

    def __init__(self, classes: tuple[type, ...]) -> None:
        self.classes = classes
        self.number = {c: k for k, c in enumerate(classes)}
        self.bits = (len(classes) - 1).bit_length()

    @cached_property
    def nullable(self) -> bool:
        """True if a field of some class may hold ``None`` in place of a reference."""
        return any(self.refers(h) and NoneType in alternatives(h) for c in self.classes for h in hints(c).values())

    def constant(self, v: Any, layout: Any) -> int | None:
        """The reference that represents a value other than a node, or None if there is none."""
        return None

    def refers(self, hint: Any) -> bool:
        """True if a field of this type holds a reference into the family."""
        return any(c in self.number for c in alternatives(hint))

    def __repr__(self) -> str:
        return " | ".join(c.__name__ for c in self.classes)


class Known:
    """What has been found out about classes; ``inferred``: the types of fields of classes that are no dataclasses."""

    def __init__(self, inferred: Mapping[type, dict[str, Any]]) -> None:
        self.families: dict[type, Family | None] = {}
        self.by_members: dict[frozenset[type], Family] = {}
        self.inferred = inferred
        self.hints = dict(inferred)


_shared = Known({})
_own = threading.local()


def _known() -> Known:
    found: Known = getattr(_own, "known", _shared)
    return found


@contextmanager
def with_inferred(known: Known | None) -> Iterator[None]:
    """Takes the inferred classes for dataclasses, in this thread."""
    before = _known()
    _own.known = known or before
    try:
        yield
    finally:
        _own.known = before


def is_record(cls: Any) -> bool:
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or cls in _known().inferred)


def family_of(cls: type) -> Family | None:
    """The family of a class; None if the class is not part of recursive data."""
    families = _known().families
    if cls not in families:
        if not is_record(cls):
            return None
        families[cls] = None
        families[cls] = _find(cls)
    return families[cls]


def forget() -> None:
    """Clears the caches, because classes have been defined since they were filled."""
    _known().families.clear()
    _known().hints = dict(_known().inferred)


def _find(cls: type) -> Family | None:
    reach = _reach(cls)
    members = dict.fromkeys(c for c in (cls, *reach) if c in _reach(c))
    if not members:
        return next((f for c in _neighbours(cls) if (f := family_of(c)) is not None and cls in f.number), None)
    if cls not in members:
        return None                                  # the class holds trees but is not a node of one
    for c in list(members):
        for hint in hints(c).values():
            for group in _groups(hint):
                if any(m in members for m in group):
                    members.update(dict.fromkeys(group))
    family = _known().by_members.setdefault(frozenset(members), Family(tuple(members)))
    families = _known().families
    for c in members:
        if families.get(c) is None and c not in _reach(c):
            families[c] = family
    return family


def _neighbours(cls: type) -> Iterator[type]:
    """Recursive dataclasses that may refer to ``cls``: those of its module and those with a common base class."""
    module = sys.modules.get(cls.__module__)
    for c in [*vars(module).values()] if module is not None else []:
        if is_record(c) and c in _reach(c):
            yield c
    for base in filter(_may_have_records, cls.__mro__[1:]):
        yield from (c for c in _subclasses(base) if is_record(c) and c in _reach(c))


def _reach(cls: type) -> dict[type, None]:
    """The dataclasses that the annotations of a class lead to."""
    found: dict[type, None] = {}
    todo = [cls]
    while todo:
        for hint in hints(todo.pop()).values():
            for c in (c for group in _groups(hint) for c in group):
                if c not in found:
                    found[c] = None
                    todo.append(c)
    return found


# --- annotations ------------------------------------------------------------------------------------

def hints(cls: type) -> dict[str, Any]:
    """The types of the fields of a dataclass; ``Any`` if an annotation cannot be evaluated."""
    found = _known().hints
    if cls not in found:
        found[cls] = {f.name: _evaluated(cls, f) for f in dataclasses.fields(cls)}
    return found[cls]


def _evaluated(cls: type, field: dataclasses.Field[Any]) -> Any:
    hint = field.type
    if isinstance(hint, str):
        owner = next((c for c in cls.__mro__ if field.name in c.__dict__.get("__annotations__", ())), cls)
        methods = (m.__globals__ for m in vars(owner).values() if isinstance(m, types.FunctionType))
        names: dict[str, Any] = {}
        for scope in (*methods, _module_of(owner)):
            names.update(scope)
        try:
            return _evaluate(hint, {**names, owner.__name__: owner})
        except (NameError, AttributeError, TypeError, SyntaxError):
            return Any
    return _resolved(hint, cls)


def _module_of(cls: type) -> Mapping[str, Any]:
    """The names of a class's module; none if that has another class of this name: a class of another ``__main__``."""
    module = sys.modules.get(cls.__module__, typing)
    return vars(module) if getattr(module, cls.__qualname__, cls) is cls else {}


def _evaluate(text: str, names: dict[str, Any]) -> Any:
    holder = types.new_class("Holder")
    holder.__annotations__ = {"x": text}
    return typing.get_type_hints(holder, names)["x"]


def _resolved(hint: Any, cls: type) -> Any:
    """An annotation that contains strings, such as ``Optional["Tree"]``, resolved; ``Any`` if that fails."""
    names = {**_module_of(cls), cls.__name__: cls}
    holder = types.new_class("Holder")
    holder.__annotations__ = {"x": hint}
    try:
        return typing.get_type_hints(holder, names)["x"]
    except (NameError, AttributeError, TypeError, SyntaxError):
        return Any


def alternatives(hint: Any) -> list[Any]:
    """The possible types of a value: the members of a union or of an alias, and dataclass subclasses."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [a for arg in typing.get_args(hint) for a in alternatives(arg)]
    if isinstance(hint, typing.TypeVar) or hint is None:
        return [NoneType if hint is None else Any]
    if hasattr(hint, "__value__"):                   # type X = …
        return alternatives(hint.__value__)
    if is_record(typing.get_origin(hint)):           # Node[T]
        return alternatives(typing.get_origin(hint))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        below = [c for c in _subclasses(hint) if is_record(c)] if _may_have_records(hint) else []
        return [hint, *below]
    return [hint]


def _may_have_records(cls: type) -> bool:
    return cls is not object and cls.__module__ not in ("builtins", "numpy", "typing", "abc")


def _subclasses(cls: type) -> Iterator[type]:
    below: list[type] = type.__subclasses__(cls)
    for c in below:
        yield c
        yield from _subclasses(c)


def _groups(hint: Any) -> Iterator[list[type]]:
    """The dataclasses that are alternatives to each other in an annotation; one group for each position in it."""
    found = alternatives(hint)
    yield [c for c in found if is_record(c)]
    for a in found:
        if typing.get_origin(a) is not None:
            for arg in typing.get_args(a):
                if arg is not Ellipsis and not isinstance(arg, (list, str, int)):
                    yield from _groups(arg)
