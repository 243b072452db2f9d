"""Python functions by value: code, source, cells, defaults, and the globals that they read.

A function is made first (``make_function``) and filled later (``fill_function``), since what it reads may lead back to
it.  Functions that share a cell, or the globals of a module, share them again where they are loaded.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import marshal
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..frontend.syntax import carried, source
from .places import found, is_importable

NOT_PICKLED = ("__jitad_compiled__",)
"""Attributes of functions that hold compiled code."""

_OF_MODULE = ("__name__", "__package__", "__file__")
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")


class Functions:
    """Reduces the functions of one pickle."""

    def __init__(self) -> None:
        self._globals: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._cells: dict[int, tuple[CellType, _Cell]] = {}

    def reduced(self, fun: FunctionType) -> Any:
        """``fun`` by value, or as an attribute of the decorated function that stands under its name."""
        decorated = found(fun.__module__, fun.__qualname__) if is_importable(fun.__module__) else None
        if decorated is not None and getattr(decorated, "__wrapped__", None) is fun:
            return getattr, (decorated, "__wrapped__")
        cells = tuple(map(self._cell, fun.__closure__ or ()))
        made = fun.__code__, self._globals_of(fun), fun.__name__, cells
        return make_function, made, self._state(fun, cells), None, None, fill_function

    def _globals_of(self, fun: FunctionType) -> str | dict[str, Any]:
        """The module's name if it can be imported, else a dict to fill: the same one for all functions of a module."""
        globals_ = fun.__globals__
        name = globals_.get("__name__")
        if is_importable(name) and vars(sys.modules[str(name)]) is globals_:
            return str(name)
        if id(globals_) not in self._globals:
            self._globals[id(globals_)] = globals_, {k: globals_[k] for k in _OF_MODULE if k in globals_}
        return self._globals[id(globals_)][1]

    def _cell(self, cell: CellType) -> _Cell:
        return self._cells.setdefault(id(cell), (cell, _Cell()))[1]

    def _state(self, fun: FunctionType, cells: tuple[_Cell, ...]) -> dict[str, Any]:
        read = {} if isinstance(self._globals_of(fun), str) else dict(_globals_read(fun))
        attributes = {k: v for k, v in vars(fun).items() if k not in NOT_PICKLED}
        names = {name: getattr(fun, name) for name in
                 ("__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__")}
        return {"names": names, "attributes": attributes, "globals": read, "imports": _submodules(fun, read),
                "cells": [(made, cell.cell_contents) for made, cell in zip(cells, fun.__closure__ or ())
                          if not _is_empty(cell)]}


class _Cell:
    """A closure cell, written without its contents, which the functions that own it fill in."""

    def __reduce__(self) -> Any:
        return make_cell, ()


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions defined inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _globals_read(fun: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals that a function reads, in the order of its code."""
    for code in _codes(fun.__code__):
        for instruction in dis.get_instructions(code):
            if instruction.opname in _READS and instruction.argval in fun.__globals__:
                yield instruction.argval, fun.__globals__[instruction.argval]


def _submodules(fun: FunctionType, read: dict[str, Any]) -> list[str]:
    """Loaded submodules that the function may reach as attributes of modules: ``scipy.special`` of ``scipy``."""
    names = dict.fromkeys(name for code in _codes(fun.__code__) for name in code.co_names)
    modules = [v.__name__ for v in read.values() if isinstance(v, ModuleType)]
    return [f"{m}.{name}" for m in modules for name in names if f"{m}.{name}" in sys.modules]


# --- the other side -------------------------------------------------------------------------------

def make_cell() -> CellType:
    return CellType()


def make_method(fun: Any, obj: Any) -> MethodType:
    return MethodType(fun, obj)


def make_function(code: CodeType, globals_: str | dict[str, Any], name: str, cells: tuple[CellType, ...]) -> Any:
    """A function without defaults, attributes and contents of its cells."""
    if isinstance(globals_, str):
        globals_ = vars(importlib.import_module(globals_))
    globals_.setdefault("__builtins__", builtins)
    return FunctionType(code, globals_, name, None, cells)


def fill_function(fun: FunctionType, state: dict[str, Any]) -> None:
    for name in state["imports"]:
        importlib.import_module(name)
    for name, value in state["names"].items():
        setattr(fun, name, value)
    fun.__dict__.update(state["attributes"])
    fun.__globals__.update(state["globals"])
    for cell, contents in state["cells"]:
        cell.cell_contents = contents


def reduced_code(code: CodeType) -> Any:
    """Code, with the text that it was compiled from, which jitad compiles."""
    return make_code, (marshal.dumps(code), source.statement(code))


def make_code(data: bytes, text: tuple[int, str] | None) -> CodeType:
    code: CodeType = marshal.loads(data)
    if text is not None:
        carried.keep(code, *text)
    return code
