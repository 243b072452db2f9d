"""Saves and restores the captured objects that a function may change.

A derivative by differences runs its function many times, but its changes must take effect once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

Restore = Callable[[], None]


def kept(*roots: Any) -> Restore:
    """A function that restores the current contents of all objects reachable from ``roots``."""
    found: dict[int, tuple[Any, Restore]] = {}
    todo = list(roots)
    while todo:
        x = todo.pop()
        if id(x) in found or isinstance(x, (type, ModuleType)):
            continue
        restore, parts = _one(x)
        found[id(x)] = x, restore
        todo += parts
    return lambda: [restore() for _, restore in found.values()] and None


def _one(x: Any) -> tuple[Restore, list[Any]]:
    """A function that restores one object's contents, and the objects that it refers to."""
    if isinstance(x, np.ndarray):
        before = x.copy()
        return (lambda: np.copyto(x, before)) if x.flags.writeable else _nothing, []
    if isinstance(x, CellType):
        return _cell(x)
    if isinstance(x, list):
        was = list(x)
        return lambda: x.__setitem__(slice(None), was), was
    if isinstance(x, dict):
        had = dict(x)
        return lambda: (x.clear(), x.update(had)) and None, list(had.values())
    if isinstance(x, FunctionType):
        return _nothing, [*(x.__closure__ or ()), *(x.__defaults__ or ())]
    if isinstance(x, MethodType):
        return _nothing, [x.__self__, x.__func__]
    if isinstance(x, functools.partial):
        return _nothing, [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, tuple):
        return _nothing, list(x)
    return _nothing, [vars(x)] if hasattr(x, "__dict__") else []


def _cell(x: CellType) -> tuple[Restore, list[Any]]:
    try:
        before = x.cell_contents
    except ValueError:                  # not assigned yet
        return _nothing, []

    def restore() -> None:
        x.cell_contents = before
    return restore, [before]


def _nothing() -> None:
    pass
