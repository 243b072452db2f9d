"""CPython's and NumPy's functions, types and singletons as LLVM operands, and the layout of their objects.

Machine code has no addresses of this process in it.  Operands are external symbols, whose names tell what they stand
for; the linker puts their addresses into a table (``resolve``), so that the code may be used in other processes.
Offsets are those of the stable parts of the object layout, which are the same in all 64-bit builds with a GIL.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from ...ir.types import ALL, BOOL, F64, I64, Array, Scalar, Type

T = TypeVar("T")

# --- layout ---------------------------------------------------------------------------------------

OB_TYPE = 8
REFCOUNT = "i32" if sys.version_info >= (3, 12) else "i64"       # at 0; 3.14 has flags behind these 32 bits
FLOAT_VALUE = float.__basicsize__ - 8
NUMPY_SCALAR_VALUE = object.__basicsize__              # NumPy's numbers: the object's head, then the value
VAR_SIZE = object.__basicsize__                        # ob_size of tuples and lists
TUPLE_ITEMS = tuple.__basicsize__
LIST_ITEMS = VAR_SIZE + 8                              # a pointer to the items
LONG_TAG = object.__basicsize__                        # before 3.12 the signed number of digits, later a tag
LONG_DIGIT = LONG_TAG + 8
LONG_HAS_TAG = sys.version_info >= (3, 12)

ARRAY_DATA, ARRAY_NDIM, ARRAY_DIMS = 16, 24, 32        # PyArrayObject_fields of NumPy 2
ARRAY_DESCR, ARRAY_FLAGS = 56, 64
NDARRAY = np.ndarray
ARRAY_NEEDED_FLAGS = 0x0001 | 0x0100                   # C-contiguous, aligned
ARRAY_WRITEABLE = 0x0400
NARGS_MASK = (1 << 63) - 1                             # without PY_VECTORCALL_ARGUMENTS_OFFSET


# --- addresses ------------------------------------------------------------------------------------

# Indices in NumPy's table of C functions, part of its ABI.
_ARRAY_API = {"PyArray_New": 93, "PyArray_Scalar": 60, "PyArray_SetBaseObject": 282}

_NUMPY_TYPES: dict[Scalar, Any] = {t: t.np.type for t in ALL}
_PYTHON_TYPES: dict[Scalar, type] = {F64: float, I64: int, BOOL: bool}


def bind(name: str, result: Any, *params: Any) -> Any:
    """A function of CPython's, typed for use from here without changing what others see in ``ctypes.pythonapi``."""
    return ctypes.PYFUNCTYPE(result, *params)((name, ctypes.pythonapi))


@cache
def address(name: str) -> int:
    """The address of a function of CPython's, NumPy's or the C library's interface."""
    if name in _ARRAY_API:
        return int(_array_api()[_ARRAY_API[name]])
    found = getattr(ctypes.pythonapi, name)
    return int(ctypes.cast(found, ctypes.c_void_p).value or 0)


@cache
def _array_api() -> Any:
    get = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_void_p))


def scalar_type(t: Scalar, python: bool) -> type:
    """The class of scalars of IR type ``t``: Python's own, or NumPy's."""
    return (_PYTHON_TYPES if python else _NUMPY_TYPES)[t]


def descr(t: Type) -> Any:
    """NumPy's singleton dtype object for elements of ``t``."""
    return np.dtype(_NUMPY_TYPES[t.dtype if isinstance(t, Array) else t])  # type: ignore[index]


def type_number(t: Scalar) -> int:
    """NumPy's number for this element type."""
    return int(descr(t).num)


def immortal(obj: T) -> T:
    """Keep an object alive until the process ends, and return it.

    Machine code may hold its address until then.  The interpreter clears modules at exit, while destructors still call
    compiled functions.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(obj))
    return obj


# --- symbols --------------------------------------------------------------------------------------

FUNCTION, OBJECT, MEMORY, NAMED = "py.", "obj.", "mem.", "at."
_SYMBOL = re.compile(r'@"((?:py|obj|mem|at)\.[^"]+)"')
_WELL_KNOWN: dict[str, Any] = {
    **{str(x): x for x in (None, True, False)}, **{t.__name__: t for t in (float, int, bool, str, list, tuple, dict)},
    "ndarray": NDARRAY, **{f"scalar.{t}": kind for t, kind in _NUMPY_TYPES.items()},
    **{f"dtype.{t}": np.dtype(kind) for t, kind in _NUMPY_TYPES.items()}}
_well_known = {id(obj): name for name, obj in _WELL_KNOWN.items()}
_named: dict[str, Callable[[], int]] = {name: partial(id, obj) for name, obj in _WELL_KNOWN.items()}


def function(name: str) -> str:
    """The function ``name`` of the C interfaces as an LLVM operand."""
    return f'@"{FUNCTION}{name}"'


def pointer(obj: object) -> str:
    """An object as an LLVM operand; the owner of the code keeps the object alive."""
    if (known := _well_known.get(id(obj))) is not None:
        return f'@"{NAMED}{known}"'
    for record in _recording:
        record[id(obj)] = obj
    return f'@"{OBJECT}{id(obj):x}"'


_recording: list[dict[int, Any]] = []


@contextmanager
def recording() -> Iterator[dict[int, Any]]:
    """A context that yields a table, by address, of the objects that become operands in it."""
    found: dict[int, Any] = {}
    _recording.append(found)
    try:
        yield found
    finally:
        _recording[:] = [record for record in _recording if record is not found]


def memory(address: int, offset: int = 0) -> str:
    """Memory of this process as an LLVM operand.  ``address`` is the start of it: different memory does not overlap."""
    return displaced(f'@"{MEMORY}{address:x}"', offset)


def displaced(base: str, offset: int) -> str:
    """The address ``offset`` bytes behind a symbol, as an LLVM operand."""
    return f"getelementptr (i8, ptr {base}, i64 {offset})" if offset else base


def named(name: str, find: Callable[[], int]) -> str:
    """Memory or a function that every process has under this name, as an LLVM operand; ``find``: its address here."""
    _named[name] = find
    return f'@"{NAMED}{name}"'


def is_named(symbol: str) -> bool:
    """True if the address of memory with a name is known."""
    return symbol.removeprefix(NAMED) in _named


def symbols(text: str) -> list[str]:
    """The symbols in LLVM IR that stand for something of this process."""
    return list(dict.fromkeys(_SYMBOL.findall(text)))


def resolve(symbol: str) -> int:
    """The address in this process of a symbol that was made here, or that stands for the same in all processes."""
    kind, _, what = symbol.partition(".")
    if kind == "py":
        return address(what)
    return _named[what]() if kind == "at" else int(what, 16)
