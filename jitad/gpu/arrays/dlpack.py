"""DLPack: arrays exchanged with other libraries without copying, as C structures in Python capsules.

A capsule is named ``dltensor`` (or ``dltensor_versioned``) until a library takes it over, which renames it and calls
the deleter in the structure when it is done.  https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import TypeInferenceError
from ...ir.types import INSTEAD

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Kinds of devices (``DLDeviceType``)."""

_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
_LETTERS = {code: letter for letter, code in _KINDS.items()}
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
VERSION = (1, 0)
READ_ONLY, COPIED = 1, 2
"""Flags of versioned structures."""


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", _Deleter), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


def _capi(name: str, result: Any, *args: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *args)((name, ctypes.pythonapi))


_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = _capi("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = _capi("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _capi("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _capi("PyCapsule_SetName", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_USED = {_PLAIN: ctypes.create_string_buffer(b"used_" + _PLAIN),
         _VERSIONED: ctypes.create_string_buffer(b"used_" + _VERSIONED)}     # a capsule keeps the address of its name


@dataclass(frozen=True)
class Foreign:
    """An array in memory of another owner, which stays valid while ``owner`` lives; strides are in bytes.

    ``flags``: ``READ_ONLY``, ``COPIED``.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype
    device: tuple[int, int]
    owner: Any
    flags: int = 0


# --- giving ---------------------------------------------------------------------------------------

_given: dict[int, Any] = {}
"""The objects that structures which have been handed out need, by address; the deleter removes them."""


def _delete(address: int) -> None:
    _given.pop(address, None)


def _forget(capsule: int) -> None:
    """Deletes the structure in a capsule that no library has taken."""
    for name in (_PLAIN, _VERSIONED):
        if _is_valid(capsule, name):
            _delete(_pointer(capsule, name))


_deleter, _destructor = _Deleter(_delete), _Destructor(_forget)


def capsule(array: Foreign, versioned: bool) -> Any:
    """A capsule for ``array``, whose owner lives until the capsule or its taker is gone."""
    if array.flags & READ_ONLY and not versioned:
        raise BufferError("a read-only array cannot be given away through DLPack before 1.0, which does not say so")
    n, size = len(array.shape), array.dtype.itemsize
    made: Any = _ManagedVersioned() if versioned else _Managed()
    shape = (ctypes.c_int64 * n)(*array.shape)
    strides = (ctypes.c_int64 * n)(*(s // size for s in array.strides)) if array.strides is not None else None
    made.tensor = _Tensor(array.address or None, *array.device, n, _KINDS[array.dtype.kind], 8 * size, 1, shape,
                          strides, 0)
    made.deleter = _deleter
    if versioned:
        made.major, made.minor, made.flags = *VERSION, array.flags
    address = ctypes.addressof(made)
    _given[address] = made, shape, strides, array.owner
    return _new(address, _VERSIONED if versioned else _PLAIN, _destructor)


# --- taking ---------------------------------------------------------------------------------------

class _Taken:
    """Another library's structure, which is deleted with this object."""

    def __init__(self, managed: Any) -> None:
        self.managed = managed
        weakref.finalize(self, _release, managed).atexit = False


def _release(managed: Any) -> None:
    if managed.deleter:
        managed.deleter(ctypes.addressof(managed))


def taken(made: Any) -> Foreign:
    """The array in a capsule, which is taken over."""
    at = id(made)
    name, kind = (_VERSIONED, _ManagedVersioned) if _is_valid(at, _VERSIONED) else (_PLAIN, _Managed)
    if not _is_valid(at, name):
        raise BufferError(f"no capsule of DLPack that can be taken, but {made!r}")
    managed: Any = kind.from_address(_pointer(at, name))
    _rename(at, _USED[name])
    owner = _Taken(managed)
    if name == _VERSIONED and managed.major != VERSION[0]:
        raise BufferError(f"DLPack {managed.major}.{managed.minor}, of which only the deleter is known")
    flags = int(managed.flags) if name == _VERSIONED else 0
    tensor = managed.tensor
    shape = tuple(tensor.shape[:tensor.ndim])
    dtype = _dtype(tensor)
    strides = tuple(s * dtype.itemsize for s in tensor.strides[:tensor.ndim]) if tensor.strides else None
    return Foreign((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype,
                   (tensor.device_type, tensor.device_id), owner, flags)


def _dtype(tensor: Any) -> np.dtype:
    if tensor.lanes == 1 and tensor.code in _LETTERS and tensor.bits in (8, 16, 32, 64):
        return np.dtype(f"{_LETTERS[tensor.code]}{tensor.bits // 8}")
    kind = {3: "an opaque type", 4: "bfloat16", 5: f"complex{tensor.bits}"}.get(tensor.code, f"type {tensor.code}")
    raise TypeInferenceError(f"arrays of {kind} have no place in compiled code", hint=f"convert to {INSTEAD} first")
