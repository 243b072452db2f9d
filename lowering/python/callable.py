"""The type of the object that a user holds: called at the speed of a C function, with attributes like a Python object.

CPython calls an object without making a tuple if its type has a *vectorcall* offset: it jumps to the pointer stored
in the object.  Here that pointer is first CPython's own ``method_vectorcall``, which calls ``function(self, *args)``.
Later it is machine code that tests the types of the arguments and runs, or continues at ``method_vectorcall`` if they
have other types.

The type is made through ``PyType_FromSpec`` because a class statement cannot set a vectorcall offset, and because
defining ``__call__`` disables the fast path.  The slots are chosen so that nothing needs a C compiler, nor machine
code before the first compilation.  The C functions that such a type needs are borrowed from existing types: garbage
collection from any plain class (``subtype_traverse`` visits the listed members), binding as a method from functions,
and the slow call from bound methods, whose layout (``function``, ``self``, weak references, vectorcall) this object
shares.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable as Function
from typing import Any

from ...errors import CompileError
from ..llvm.capi import address, bind

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_HEAD = object.__basicsize__                   # reference count and type
FUNCTION, SELF, WEAKREFS, VECTORCALL, DICT, LAST = (_HEAD + i * _POINTER for i in range(6))
_SIZE = LAST + _POINTER

_HAVE_VECTORCALL, _HAVE_GC, _METHOD_DESCRIPTOR, _DEFAULT = 1 << 11, 1 << 14, 1 << 17, 1 << 18
_T_PYSSIZET, _T_OBJECT_EX, _READONLY = 19, 16, 1
# Numbers of slots, from CPython's typeslots.h; they are part of its stable ABI.
_TP_CALL, _TP_CLEAR, _TP_DESCR_GET, _TP_TRAVERSE, _TP_MEMBERS, _TP_GETSET = 50, 51, 54, 71, 72, 73


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
                ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(_Slot))]


class _Member(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class _GetSet(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("get", ctypes.c_void_p), ("set", ctypes.c_void_p),
                ("doc", ctypes.c_char_p), ("closure", ctypes.c_void_p)]


class _Plain:
    """A plain class to borrow slots from."""

    def method(self) -> None:
        """A method; bound, it shows CPython's layout of bound methods."""


def read_pointer(address: int) -> int:
    """The pointer stored at ``address``."""
    return ctypes.c_void_p.from_address(address).value or 0


def _slow_vectorcall() -> int:
    """The address of ``method_vectorcall``, after a check that bound methods have the layout that this file assumes."""
    plain = _Plain()
    method = types.MethodType(_Plain.method, plain)
    at = id(method)
    expected = (types.MethodType.__basicsize__ == VECTORCALL + _POINTER
                and read_pointer(at + FUNCTION) == id(_Plain.method)
                and read_pointer(at + SELF) == id(plain))
    if not expected:
        raise CompileError("this build of CPython lays out bound methods in a way that jitad does not know")
    return read_pointer(at + VECTORCALL)


def _borrowed(owner: type, slot: int) -> int:
    return int(bind("PyType_GetSlot", ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(owner, slot))


_members = (_Member * 6)(
    _Member(b"_function", _T_OBJECT_EX, FUNCTION, 0, None),
    _Member(b"_self", _T_OBJECT_EX, SELF, 0, None),
    _Member(b"__weaklistoffset__", _T_PYSSIZET, WEAKREFS, _READONLY, None),
    _Member(b"__vectorcalloffset__", _T_PYSSIZET, VECTORCALL, _READONLY, None),
    _Member(b"__dictoffset__", _T_PYSSIZET, DICT, _READONLY, None),
)
_getset = (_GetSet * 2)(
    _GetSet(b"__dict__", address("PyObject_GenericGetDict"), address("PyObject_GenericSetDict"), None, None),
)
_name = b"jitad.Jit"


def _make_type() -> Any:
    slots = (_Slot * 7)(
        _Slot(_TP_CALL, address("PyVectorcall_Call")),
        _Slot(_TP_TRAVERSE, _borrowed(_Plain, _TP_TRAVERSE)),
        _Slot(_TP_CLEAR, _borrowed(_Plain, _TP_CLEAR)),
        _Slot(_TP_DESCR_GET, _borrowed(types.FunctionType, _TP_DESCR_GET)),
        _Slot(_TP_MEMBERS, ctypes.cast(_members, ctypes.c_void_p)),
        _Slot(_TP_GETSET, ctypes.cast(_getset, ctypes.c_void_p)),
    )
    flags = _DEFAULT | _HAVE_GC | _HAVE_VECTORCALL | _METHOD_DESCRIPTOR
    spec = _Spec(_name, _SIZE, 0, flags, slots)
    return bind("PyType_FromSpec", ctypes.py_object, ctypes.POINTER(_Spec))(spec)


SLOW_VECTORCALL = _slow_vectorcall()
Jit: Any = _make_type()


def make(function: Function[..., Any], self: object) -> Any:
    """A ``Jit`` object that calls ``function(self, …)`` until it gets an entry point."""
    jit = Jit()
    jit._function, jit._self = function, self
    set_entry(jit, SLOW_VECTORCALL)
    return jit


def set_entry(jit: Any, address: int) -> None:
    """Makes calls of ``jit`` go to the vectorcall function at ``address``."""
    ctypes.c_void_p.from_address(id(jit) + VECTORCALL).value = address


def entry_of(jit: Any) -> int:
    """The address of the vectorcall function to which calls of ``jit`` go."""
    return read_pointer(id(jit) + VECTORCALL)


def last_of(jit: Any) -> int:
    """The mark of the entry point that took the last call (``entry_point.Entry.mark``); 0 if there was none."""
    return read_pointer(id(jit) + LAST)


def forget_last(jit: Any) -> None:
    ctypes.c_void_p.from_address(id(jit) + LAST).value = 0
