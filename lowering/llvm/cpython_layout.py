"""CPython's memory layout of variables and attributes: dicts, closure cells, functions, objects, classes.

CPython does not guarantee these parts of the layout, so this file probes them when it is imported.  If a probe fails,
``KNOWN`` is false, and programs that read captured state are called through Python.

A dict is a table of *keys* with a head of ``KEYS_HEAD`` bytes and indices, behind which entries stand in the order in
which they were inserted: pointers to key and value, or hash, key and value.  An entry stays where it is until the
table is replaced.  The interpreter gives a table whose keys are strings a *version* when it specialises a function that
reads a global variable from it, and takes it away when a key is added or removed.

Attributes of an object are pointers in an array, in the order of the keys that all objects of its class share.  Keys
are only added to these, and the array of an object has room for all of them.  An object may have a dict in its place:

* ``apart`` (3.11): words before the object point to the array and to the dict.
* ``tagged`` (3.12): one word points to the dict, or is odd and points one byte before the array.
* ``inline`` (from 3.13 on): the array is behind the object, with a head that tells if it is in use.  A dict that
  somebody has asked for uses the same array as long as its keys are the shared ones.

Before 3.13 the array is gone once somebody has asked for ``__dict__``.  ``ATTRIBUTES`` says which of them it is.
"""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

DICT_USED, DICT_KEYS, DICT_VALUES = 16, 32, 40
KEYS_FORM = 8                                          # 3 bytes: logarithms of the size and of the indices' bytes, kind
FORM_MASK = 0xFFFFFF
KEYS_VERSION = 12                                      # 4 bytes
VERSIONED_FORM = 0xFFFFFFFF_00FFFFFF                   # of the 8 bytes there: the form, and behind it the version
KEYS_COUNT = 24                                        # entries in use, deleted ones among them
KEYS_HEAD = 32
UNICODE_KIND = 1                                       # kind 0 has hashes in its entries, of kind 2 dicts share keys
CELL_VALUE = 16
METHOD_FUNCTION, METHOD_SELF = 16, 24
HEAD = 16                                              # of every object: count of references, class
OBJECT_VALUES, OBJECT_DICT = -32, -24
INLINE_VALID, INLINE_VALUES = 3, 8                     # from the end of the object on: a byte, the array
HAS_INLINE_VALUES, MANAGED_DICT = 1 << 2, 1 << 4       # flags of classes
DESCRIPTOR_MEMBER, MEMBER_OFFSET = 40, 16              # what ``__slots__`` makes


def u8(address: int) -> int:
    return ctypes.c_uint8.from_address(address).value


def u64(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def u32(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value


def form(keys: int) -> int:
    """The fields of a table of keys that tell the address of its entries."""
    return u32(keys + KEYS_FORM) & FORM_MASK


def keys_of(table: dict[Any, Any]) -> int:
    return u64(id(table) + DICT_KEYS)


def entry_of(keys: int, key: Any) -> tuple[int, int] | None:
    """The number of a key in a table, and how far behind its head the pointer to it is."""
    shape = form(keys)
    step, skip = (24, 8) if shape >> 16 == 0 else (16, 0)
    first = KEYS_HEAD + (1 << (shape >> 8 & 0xFF)) + skip
    count = u64(keys + KEYS_COUNT)
    words = (ctypes.c_uint64 * (count * step // 8)).from_address(keys + first)[::step // 8] if count else []
    try:
        number = words.index(id(key))
    except ValueError:
        return None
    return number, first + number * step


def key_in(table: dict[Any, Any], key: Any) -> Any:
    """The object that stands for a key in a dict."""
    if type(key) is str:
        key = sys.intern(key)
    return key if entry_of(keys_of(table), key) is not None else next((k for k in table if k == key), None)


def _global_variable() -> Any:
    return wanted                                                      # type: ignore[name-defined]  # noqa: F821


SPECIALISED = 32                                       # calls after which a function is specialised; 3.11 takes 9


def ask_for_version(module: dict[str, Any], name: str) -> None:
    """Make the interpreter give a module's keys a version, if they have none: it specialises a function."""
    if u32(keys_of(module) + KEYS_VERSION) or type(module) is not dict:
        return
    code = _global_variable.__code__.replace(co_names=(name,))
    function = types.FunctionType(code, module)
    try:
        for _ in range(SPECIALISED):
            function()
    except NameError:                                  # another thread has deleted it
        return


_TYPE_SIZE: Any = type.__basicsize__


class _Plain:
    def __init__(self) -> None:
        self.jitad_one, self.jitad_two = "one", "two"


class _Slotted:
    __slots__ = ("one", "two")


def _offset_of(owner: Any, size: Any, value: int, read: Any = u64, step: int = 8) -> int:
    """The offset of a word in an object; 0 if it is not there."""
    return next((o for o in range(16, size, step) if read(id(owner) + o) == value), 0)


def _function_offsets() -> tuple[int, ...]:
    def f(a: Any = (1,), *, b: Any = 2) -> None:
        """To look into."""
    size = types.FunctionType.__basicsize__
    return tuple(_offset_of(f, size, id(getattr(f, name))) for name in ("__code__", "__defaults__", "__kwdefaults__"))


def _shared_keys() -> int:
    """The offset in a class of the table of keys that its objects share; 0 if it is not found."""
    table = _Plain().__dict__
    return _offset_of(_Plain, _TYPE_SIZE, keys_of(table))


def _version_tag() -> int:
    """The offset in a class of its version, which any change of it or of a base makes zero; 0 if it is not found."""
    class Changed:
        value = 1

    def words() -> list[int]:
        getattr(Changed, "value")                                                                # noqa: B009
        return [u32(id(Changed) + o) for o in range(0, _TYPE_SIZE, 4)]
    first, again = words(), words()
    Changed.value = 2
    changed = [u32(id(Changed) + o) for o in range(0, _TYPE_SIZE, 4)]
    later = words()
    found = [4 * i for i, (a, b, c, d) in enumerate(zip(first, again, changed, later))
             if a == b and a != 0 and c == 0 and d not in (0, a)]
    return found[0] if len(found) == 1 else 0


FUNCTION_CODE, FUNCTION_DEFAULTS, FUNCTION_NAMED = _function_offsets()
SHARED_KEYS, VERSION_TAG = _shared_keys(), _version_tag()


def _dicts_are_known() -> bool:
    table = {"one": "x", "two": "y"}
    general = {1: "x", "two": "y"}
    for d in (table, general):
        found = entry_of(keys_of(d), sys.intern("two"))
        if found is None or found[0] != 1 or u64(keys_of(d) + found[1] + 8) != id(d["two"]):
            return False
    return u64(id(table) + DICT_USED) == 2 and u64(id(table) + DICT_VALUES) == 0 and form(keys_of(table)) >> 16 == 1


_CHANGES: tuple[Any, ...] = (
    lambda d: d.__setitem__("new", 1), lambda d: d.__delitem__("one"), lambda d: d.pop("one"), lambda d: d.popitem(),
    lambda d: d.setdefault("new", 1), lambda d: d.update(new=1), lambda d: d.__ior__({"new": 1}),
    lambda d: d.__setitem__(1, 1), lambda d: exec("new = 1", d), lambda d: exec("del one", d))


def _versions_are_known() -> bool:
    """Try what changes a dict: its keys have no version afterwards, unless only values change."""
    def versioned() -> dict[str, Any]:
        table = {"__builtins__": {}, "one": 1, "two": 2, "three": 3}
        ask_for_version(table, "two")
        return table

    def version(table: dict[str, Any]) -> int:
        return u32(keys_of(table) + KEYS_VERSION)
    first, second = versioned(), versioned()
    before = version(first), version(second)
    first["two"], second["one"] = 3, "other"
    if 0 in before or before[0] == before[1] or (version(first), version(second)) != before:
        return False
    for change in _CHANGES:
        table = versioned()
        change(table)
        if version(table):
            return False
    return True


def values_of(obj: Any, kind: str) -> int:
    """The address of the array in which an object has its attributes; 0 if it has them in a dict."""
    if kind == "apart":
        return u64(id(obj) + OBJECT_VALUES)
    if kind == "tagged":
        word = u64(id(obj) + OBJECT_DICT)
        return word + 1 if word & 1 else 0
    end = id(obj) + type(obj).__basicsize__
    return end + INLINE_VALUES if u8(end + INLINE_VALID) else 0


def _objects_are_known(kind: str) -> bool:
    """Look at an object that nobody has asked for its dict, one that somebody has, one whose dict has been replaced,
    and one whose dict has a key that is not shared: true if they are of this kind."""
    found = entry_of(u64(id(_Plain) + SHARED_KEYS), sys.intern("jitad_two")) if SHARED_KEYS else None
    if found is None or kind == "inline" and not _Plain.__flags__ & HAS_INLINE_VALUES:
        return False
    objects = [_Plain() for _ in range(4)]
    tables: list[dict[Any, Any]] = [vars(objects[1]), {"jitad_two": "other"}, vars(objects[3])]
    objects[2].__dict__ = tables[1]
    tables[2][1] = 2
    arrays = [values_of(obj, kind) for obj in objects]
    used = [True, kind == "inline", False, False]
    return (all((u64(values + 8 * found[0]) == id("two") if values else False) == use
                for values, use in zip(arrays, used))
            and all(u64(id(obj) + OBJECT_DICT) == id(table) for obj, table in zip(objects[1:], tables)))


def slot_offset(cls: type, name: str) -> int:
    """The offset of a slot in the objects of a class."""
    descriptor = cls.__dict__[name]
    return u64(u64(id(descriptor) + DESCRIPTOR_MEMBER) + MEMBER_OFFSET)


def _slots_are_known() -> bool:
    obj = _Slotted()
    obj.one, obj.two = "one", "two"                                                    # type: ignore[attr-defined]
    return u64(id(obj) + slot_offset(_Slotted, "two")) == id("two")


def _rest_is_known() -> bool:
    value = object()
    cell, method = types.CellType(value), types.MethodType(print, value)
    return (u64(id(cell) + CELL_VALUE) == id(value) and u64(id(method) + METHOD_SELF) == id(value)
            and u64(id(method) + METHOD_FUNCTION) == id(print))


KNOWN = bool(object.__basicsize__ == HEAD and FUNCTION_CODE and FUNCTION_DEFAULTS and FUNCTION_NAMED and VERSION_TAG
             and _dicts_are_known() and _rest_is_known())
_KIND = {(3, 11): "apart", (3, 12): "tagged"}.get(sys.version_info[:2], "inline")
ATTRIBUTES = _KIND if KNOWN and _objects_are_known(_KIND) else ""
SLOTS_KNOWN = KNOWN and _slots_are_known()
VERSIONS_KNOWN = KNOWN and _versions_are_known()
