"""Qualified names under which importable modules have an object."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

MAIN = ("__main__", "__mp_main__")
"""Names of the main module: another process has another one.  The second is ``multiprocessing``'s."""


def place(obj: Any) -> str | None:
    """The qualified name of ``obj`` if its module has it under that name and another process can import the module."""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not isinstance(name, str) or not is_importable(module):
        return None
    return name if found(module, name) is obj else None


def reference(obj: Any) -> Any:
    """The result of ``__reduce__`` for an object that has a ``place``; None if it has none."""
    name = place(obj)
    if name is not None and obj.__module__.startswith("jitad.") and found("jitad", name) is obj:
        return public, (name,)                              # through the package, which prepares it to be called
    return name


def public(name: str) -> Any:
    """A public function of jitad."""
    return getattr(importlib.import_module("jitad"), name)


def found(module: Any, name: str) -> Any:
    """The object that a loaded module has under a qualified name, or None."""
    at: Any = sys.modules.get(module)
    for part in name.split("."):
        at = getattr(at, part, None)
    return at


def is_importable(module: Any) -> bool:
    """True for the name of a module that other processes can import: not the main module, and loaded from a file."""
    known = sys.modules.get(module) if isinstance(module, str) else None
    return isinstance(known, ModuleType) and module not in MAIN and known.__spec__ is not None and not _by_value(module)


def _by_value(module: str) -> bool:
    """True if the user has called ``cloudpickle.register_pickle_by_value`` for the module or its package."""
    cloudpickle = sys.modules.get("cloudpickle")
    listed = cloudpickle.list_registry_pickle_by_value() if cloudpickle is not None else ()
    return any(module == name or module.startswith(f"{name}.") for name in listed)
