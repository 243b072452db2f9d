"""The pickler of what is pickled by value: functions, jitted functions, transforms, classes of ``__main__``.

It is ``cloudpickle``'s if that is installed, else the standard library's; then classes are pickled by reference.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
import uuid
from collections import deque
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .functions import Functions, make_method, reduced_code
from .places import MAIN, found, place, reference

PROTOCOL = 5
_PROCESS = uuid.uuid4().hex
"""Equal in a process and its forks, which have the same main module."""


def dumps(obj: Any) -> bytes:
    """The bytes of ``obj``; raises the errors of ``pickle``, with a note if ``cloudpickle`` would help."""
    file = io.BytesIO()
    pickler, complete = _pickler(file)
    pickler.reducer_override = Reducers(getattr(pickler, "reducer_override", None))
    try:
        pickler.dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        if not complete:
            e.add_note("With `cloudpickle` installed, jitad also pickles what this process alone defines.")
        raise
    return file.getvalue()


class _Standard(pickle.Pickler):
    """The standard pickler, with attributes."""


def _pickler(file: io.BytesIO) -> tuple[Any, bool]:
    """A pickler, and True if it is cloudpickle's."""
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        return _Standard(file, PROTOCOL), False
    return type("Pickler", (cloudpickle.Pickler,), {})(file, PROTOCOL), True


class Reducers:
    """Says for each object of one pickle how it is made again; ``other`` is the pickler's own way."""

    def __init__(self, other: Callable[[Any], Any] | None) -> None:
        self.other = other
        self.functions = Functions()

    def __call__(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is FunctionType and place(obj) is None:
            return self.functions.reduced(obj)
        if kind is CodeType:
            return reduced_code(obj)
        if hasattr(kind, "_reduce_by_value"):               # a jitted function or method, or a transform
            return reference(obj) or obj._reduce_by_value()
        if kind is MethodType:
            return make_method, (obj.__func__, obj.__self__)
        if kind is ModuleType and obj.__name__ not in MAIN:
            return importlib.import_module, (obj.__name__,)
        found = NotImplemented if self.other is None else self.other(obj)
        return _class(obj, found) if isinstance(obj, type) else found


# --- classes of the main module -------------------------------------------------------------------

def _class(cls: type, reduced: Any) -> Any:
    """A class by value, of the main module: where that module is the same, its class is taken instead.

    Without this, ``isinstance`` would fail for objects that another pickle brings, in which the class is a reference.
    """
    if not isinstance(reduced, tuple) or len(reduced) != 6 or found(cls.__module__, cls.__qualname__) is not cls:
        return reduced
    make, args, state, _, _, fill = reduced
    main = getattr(sys.modules["__main__"], "__file__", None)
    return make_class, (_PROCESS, main, cls.__qualname__, make, *args), (fill, state), None, None, fill_class


_made: deque[type] = deque(maxlen=128)
"""Keeps classes alive from one task of a worker to the next: code is compiled for a class."""


def make_class(process: str, main: str | None, name: str, make: Callable[..., type], *args: Any) -> type:
    """The class of that name in the main module if that is the one where it was pickled, else a class to fill."""
    if process == _PROCESS or main is not None and getattr(sys.modules.get("__mp_main__"), "__file__", None) == main:
        known = found("__main__", name)
        if isinstance(known, type):
            return _tracked(args[-2], known)
    made = make(*args)
    _made.append(made)
    return made


def _tracked(number: str, known: type) -> type:
    """The class that cloudpickle has made for this number, else ``known``, which it takes from now on."""
    own = importlib.import_module("cloudpickle.cloudpickle")
    found: type = own._lookup_class_or_track(number, known)
    return found


def fill_class(cls: type, state: tuple[Callable[[type, Any], None], Any]) -> None:
    if found("__main__", cls.__qualname__) is not cls:
        fill, contents = state
        fill(cls, contents)
