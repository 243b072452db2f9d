"""``reduced``, which writes an object for any pickler, and ``load``, which reads it."""

from __future__ import annotations

import hashlib
import importlib
import pickle
import sys
from collections import OrderedDict
from typing import Any

from ..errors import UnsupportedError
from .places import reference
from .reducers import dumps

_HEADER = 1, sys.implementation.name, *sys.version_info[:2]
"""The version of this format, and what the code of functions depends on."""

_MOST_LOADED = 128
_loaded: OrderedDict[bytes, Any] = OrderedDict()


def reduced(obj: Any) -> Any:
    """The result of ``obj.__reduce_ex__``: a qualified name, or a call of ``load`` with the object's bytes.

    ``obj`` is a jitted function, a transform or a function with rules.
    """
    return reference(obj) or (load, (_HEADER, dumps(obj)))


class Value:
    """Pickled, it is ``obj`` by value, apart from what holds it: loaded anew each time, since it may change."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __reduce__(self) -> Any:
        return read, (_HEADER, dumps(self.obj))


def load(header: tuple[Any, ...], data: bytes) -> Any:
    """As ``read``, but equal bytes give one object: a worker that gets a function with each task compiles it once."""
    key = hashlib.sha256(data).digest()
    made = _loaded.pop(key, None)
    _loaded[key] = made = read(header, data) if made is None else made
    while len(_loaded) > _MOST_LOADED:
        _loaded.popitem(last=False)
    return made


def read(header: tuple[Any, ...], data: bytes) -> Any:
    """The object that ``dumps`` wrote; raises ``UnsupportedError`` if another version of Python wrote it."""
    if header != _HEADER:
        raise UnsupportedError(f"a function that {_described(header)} pickled, loaded by {_described(_HEADER)}",
                               hint="pickles of functions hold Python's code: use one version of Python and of jitad")
    try:
        found = pickle.loads(data)
        if "jitad.frontend.callables.traceable" in sys.modules:
            importlib.import_module("jitad.api").register_transforms()
        return found
    except AttributeError as e:
        e.add_note("jitad pickles classes by reference, unless `cloudpickle` is installed where they are pickled.")
        raise


def _described(header: tuple[Any, ...]) -> str:
    form, name, major, minor = header
    return f"{name} {major}.{minor} (format {form})"
