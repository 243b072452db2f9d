"""Captured state in an entry point: tests the guards, and reads the values that are arguments.

If a guard fails, the call goes on to the next entry point, like a call with other types of arguments.  A read costs a
few loads: a *hint* gives the offset of an entry in its dict, and the code compares the key there; classes have a
version.  Hints are words in memory.  They are updated when a call comes to Python only because one is out of date.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from enum import Enum
from typing import Any

from ...frontend.captured.guards import Guard
from ...frontend.captured.leaves import Leaf
from ...frontend.captured.places import Place
from ...ir.types import F64, Array
from ..llvm import capi
from ..llvm import cpython_layout as layout
from ..llvm.capi import function, pointer
from ..llvm.code import Assembly
from .attributes import Attributes
from .dict_entries import DictEntries
from .guard_tables import FEW, words_hold
from .hints import Hints, Unreadable
from .unbox import Unboxer

_SINGLETONS = (None, True, False, Ellipsis)


class Reads:
    """Emits the reading; ``objects``: the pointers to objects among the arguments, by the numbers of their leaves.

    ``keep``: arrays are held while the program runs, since other threads or handlers may drop them meanwhile.
    """

    def __init__(self, unboxer: Unboxer, guards: Sequence[Guard], captured: Sequence[tuple[Place, Leaf]],
                 objects: dict[int, str], keep: bool) -> None:
        if not layout.KNOWN:
            raise Unreadable
        self.unboxer, self.code, self.guards, self.captured = unboxer, unboxer.code, guards, captured
        self.objects, self.keep = objects, keep
        self.pointers: dict[Place, str] = {}
        self.types: dict[Place, type] = {g.place: g.expected for g in guards if g.test == "type"}
        self.keys = {g.place: g for g in guards if g.test == "keys"}
        keys = sum(len(g.expected) for g in self.keys.values())
        items = sum(len(g.expected[1]) for g in guards if g.test == "items")
        names = sum(len(g.expected[0]) for g in guards if g.test == "names")
        self.hints = Hints(guards, 8 + 8 * (len(guards) + len(captured)) + 2 * keys + names + items)
        self.same: list[str] = []                      # comparisons on which no reading depends
        self.checked: set[Any] = set()
        self.fields: dict[Place, dict[str, None]] = {}             # of objects, what is read of them
        self.entries: dict[Any, dict[Any, Place]] = {}             # of dicts
        self.of_place: dict[Place, list[Guard]] = {}
        for g in guards:
            self.of_place.setdefault(g.place, []).append(g)
        self.needed = {p for p, _ in captured}                     # places whose object is read, not only compared
        self.needed |= {g.expected for g in guards if g.test in ("same", "apart")}
        for place in [g.place for g in guards] + [p for p, _ in captured]:
            self._note(place)

    def _note(self, place: Place) -> None:
        if place.kind == "global":
            self.entries.setdefault(id(place.base), {}).setdefault(place.key, place)
        if isinstance(place.base, Place):
            self.needed.add(place.base)
            if place.kind == "field":
                self.fields.setdefault(place.base, {})[place.key] = None
            self._note(place.base)

    # --- the whole --------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """The parts of the values that are arguments."""
        self._functions()
        for guard in self.guards:
            self._guard(guard)
        if self.same:
            self.unboxer.require_all(*self.same)
        objects = [self.pointer(place) for place, _ in self.captured]
        floats = [obj for obj, (_, leaf) in zip(objects, self.captured) if leaf == _FLOAT]
        if floats:
            self.unboxer.require_all(*(f"eq ptr {self.unboxer.load('ptr', obj, capi.OB_TYPE)}, {pointer(float)}"
                                       for obj in floats))
        arrays = [(obj, leaf.type) for obj, (_, leaf) in zip(objects, self.captured) if isinstance(leaf.type, Array)]
        read = iter(self.unboxer.arrays_together([t for _, t in arrays], [obj for obj, _ in arrays]) if arrays else ())
        parts = []
        for obj, (_, leaf) in zip(objects, self.captured):
            if isinstance(leaf.type, Array):
                parts += next(read)
            elif leaf == _FLOAT:
                parts.append(self.unboxer.load("double", obj, capi.FLOAT_VALUE))
            else:
                parts += self.unboxer.leaf(leaf, obj)
        if self.keep:
            for obj, _ in arrays:
                self.unboxer.keep_array(obj)
        return parts

    def _functions(self) -> None:
        """The parts of functions and the versions of classes: what is at addresses that are known."""
        comparisons: list[str] = []
        words = []
        for g in self.guards:
            offset = _FUNCTION_PARTS.get(g.place.key) if g.place.kind == "attribute" and g.test == "is" else None
            base = g.place.base
            if offset is not None and base.kind == "object" and type(base.base) is types.FunctionType:
                words.append(((base.base, offset), (g.expected, 0)))
                self.checked.add((g.place, g.test))
            for place in _within(g.place):
                if place.kind == "member":
                    comparisons += self._version(place.base)
        for place, _ in self.captured:
            for p in _within(place):
                if p.kind == "member":
                    comparisons += self._version(p.base)
        if words:
            words_hold(self.unboxer, self.hints, words)
        if comparisons:
            self.unboxer.require_all(*comparisons)

    def _version(self, cls: type) -> list[str]:
        """The class is as it was."""
        if cls in self.checked:
            return []
        self.checked.add(cls)
        hint = self.hints.word("version", cls, early=True)
        tag = self.unboxer.load("i32", pointer(cls), layout.VERSION_TAG)
        return [f"eq i64 {self.code.op(f'zext i32 {tag} to i64')}, {self._load(hint)}"]

    def _load(self, word: str) -> str:
        return self.code.op(f"load i64, ptr {word}, align 8", "hint")

    def _guard(self, g: Guard) -> None:
        u, place = self.unboxer, g.place
        self._dict_of(place)
        if (place, g.test) in self.checked or place.kind == "member" and g.test in ("is", "plain"):
            return
        if g.test == "is":
            self.same.append(f"eq ptr {self.pointer(place)}, {pointer(g.expected)}")
        elif g.test == "means":
            same = pointer(g.expected) if any(g.expected is x for x in _SINGLETONS) else self.code.op(
                f"inttoptr i64 {self._load(self.hints.address('place', place))} to ptr")
            self.same.append(f"eq ptr {self.pointer(place)}, {same}")
        elif g.test == "type":
            u.require_type(self.pointer(place), g.expected)
        elif g.test == "absent":
            self._absent(place)
        elif g.test == "same":
            self.same.append(f"eq ptr {self.pointer(place)}, {self.pointer(g.expected)}")
        elif g.test == "apart":
            self.same.append(f"ne ptr {self.pointer(place)}, {self.pointer(g.expected)}")
        elif g.test == "count":
            u.require_equal("i64", u.load("i64", self.pointer(place), capi.VAR_SIZE), str(g.expected))
        elif g.test == "keys":
            used = u.load("i64", self.pointer(place), layout.DICT_USED)
            u.require_equal("i64", used, str(len(g.expected)))
            if g.expected:
                self._entries_of(place)
        elif g.test == "items" and g.expected[0] in (list, tuple) and g.expected[1]:
            self._items(place, g.expected[0], len(g.expected[1]))
        elif g.test == "names":
            self._attributes(place)
        else:
            raise Unreadable

    def _items(self, place: Place, cls: type, count: int) -> None:
        """The items of a list or tuple are the objects that they were."""
        u, obj = self.unboxer, self.pointer(place)
        u.require_type(obj, cls)
        u.require_equal("i64", u.load("i64", obj, capi.VAR_SIZE), str(count))
        items = u.at(obj, capi.TUPLE_ITEMS) if cls is tuple else u.load("ptr", obj, capi.LIST_ITEMS)
        known = self.hints.addresses(place, count)
        compared = self.code.op(f"call i32 {function('memcmp')}(ptr {items}, ptr {known}, i64 {8 * count})")
        u.require_equal("i32", compared, "0")

    # --- places -----------------------------------------------------------------------------------

    def pointer(self, place: Place) -> str:
        """The object at a place."""
        known = self.pointers.get(place)
        if known is None:
            found = getattr(self, f"_{place.kind}", None)
            if found is None:
                raise Unreadable
            known = found(place)
            assert known is not None
            self.pointers[place] = known
        return known

    def _object(self, place: Place) -> str:
        return pointer(place.base)

    def _argument(self, place: Place) -> str:
        return self.objects[place.key]

    def _cell(self, place: Place) -> str:
        return self._there(self.unboxer.load("ptr", pointer(place.base), layout.CELL_VALUE))

    def _member(self, place: Place) -> str:
        word = self.hints.address("place", place)
        return self.code.op(f"inttoptr i64 {self._load(word)} to ptr", "member")

    def _item(self, place: Place) -> str:
        base, cls = self.pointer(place.base), self._type_of(place.base)
        if issubclass(cls, tuple):
            return self.unboxer.load("ptr", base, capi.TUPLE_ITEMS + 8 * place.key)
        return self.unboxer.load("ptr", self.unboxer.load("ptr", base, capi.LIST_ITEMS), 8 * place.key)

    def _attribute(self, place: Place) -> str:
        cls = self._type_of(place.base)
        if cls is types.MethodType:
            offset = layout.METHOD_SELF if place.key == "__self__" else layout.METHOD_FUNCTION
            return self.unboxer.load("ptr", self.pointer(place.base), offset)
        raise Unreadable

    def _dict_of(self, place: Place) -> None:
        """Find the entries of the dict that a place is in, if it is in one."""
        if place.kind == "global":
            self._dict(id(place.base), pointer(place.base), place.base)
        elif place.kind == "entry":
            self._entries_of(place.base)

    def _global(self, place: Place) -> str:
        self._dict_of(place)
        return self.pointers[place]

    def _entry(self, place: Place) -> str:
        self._dict_of(place)
        if place not in self.pointers:
            raise Unreadable
        return self.pointers[place]

    def _field(self, place: Place) -> str:
        self._attributes(place.base)
        return self.pointers[place]

    def _type_of(self, place: Place) -> type:
        if place.kind == "object":
            return type(place.base)
        if place not in self.types:
            raise Unreadable
        return self.types[place]

    def _there(self, obj: str) -> str:
        self.unboxer.require(self.code.op(f"icmp ne ptr {obj}, null", "c"))
        return obj

    def _absent(self, place: Place) -> None:
        if place.kind == "cell":
            self.unboxer.require_equal("ptr", self.unboxer.load("ptr", pointer(place.base), layout.CELL_VALUE), "null")
        elif place.kind == "global":
            self._dict(id(place.base), pointer(place.base), place.base)
        else:
            raise Unreadable

    # --- dicts ------------------------------------------------------------------------------------

    def _entries_of(self, place: Place) -> None:
        if place not in self.keys or place in self.checked:
            return
        if place not in self.entries:
            table = self.keys[place].expected
            self.entries[place] = {key: place.entry(key) for key in (_key(m) for m in table)}
        self._dict(place, self.pointer(place), place)

    def _dict(self, name: Any, table: str, where: Any) -> None:
        """The entries that are read, found where the hints say.  Names that were absent still are if none was added.

        ``where``: the dict, or the place where it is.
        """
        if name in self.checked:
            return
        self.checked.add(name)
        places = self.entries[name]
        absent = frozenset(g.place for g in self.guards if g.test == "absent")
        same = self._only_compared({key: p for key, p in places.items() if p not in absent})
        self.pointers |= DictEntries(self.unboxer, self.hints, table, where, places, absent, same).read()
        if len(same) > FEW:
            self.checked.update((g.place, "is") for g in same.values())

    def _only_compared(self, present: dict[Any, Place]) -> dict[Any, Guard]:
        """Of the entries of a dict, those of which nothing is asked but whether they are still the same object."""
        free = {key: self.of_place.get(p, []) for key, p in present.items() if p not in self.needed}
        return {key: guards[0] for key, guards in free.items() if [g.test for g in guards] == ["is"]}

    # --- objects ----------------------------------------------------------------------------------

    def _attributes(self, place: Place) -> None:
        """All attributes of an object that are read, and that it has none of those it must not have."""
        if (place, "fields") in self.checked:
            return
        self.checked.add((place, "fields"))
        cls, obj = self._type_of(place), self.pointer(place)
        names = list(self.fields.get(place, {}))
        guard = next((g for g in self.guards if g.test == "names" and g.place == place), None)
        absent = sorted(guard.expected[0] - guard.expected[1]) if guard is not None else []
        found = Attributes(self.unboxer, self.hints).read(obj, cls, (*names, *absent), absent)
        for n in names:
            self.pointers[place.field(n)] = found[n]


_FLOAT = Leaf(F64, True)
_FUNCTION_PARTS = {"__code__": layout.FUNCTION_CODE, "__defaults__": layout.FUNCTION_DEFAULTS,
                   "__kwdefaults__": layout.FUNCTION_NAMED}


def _within(place: Any) -> list[Place]:
    """A place and those through which it is reached."""
    found = []
    while isinstance(place, Place):
        found.append(place)
        place = place.base
    return found


def _key(meaning: tuple[Any, ...]) -> Any:
    """A key of which ``meaning`` is the meaning."""
    cls, *rest = meaning
    is_itself = cls.__hash__ is object.__hash__ or issubclass(cls, Enum)       # compared by address
    if len(rest) != 1 or type(rest[0]) is not cls or not (is_itself or cls in (str, int, bool)):
        raise Unreadable
    return rest[0]


def readable(guards: Sequence[Guard], captured: Sequence[tuple[Place, Leaf]], objects: Sequence[int]) -> bool:
    """True if machine code can test all these guards and read these values."""
    unboxer = Unboxer(Assembly(), "miss", "")
    try:
        Reads(unboxer, guards, captured, {i: "null" for i in objects}, True).run()
    except Unreadable:
        return False
    return True
