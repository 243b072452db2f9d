"""The key of an entry: the function, the types of the arguments, the options, the processor, the versions."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import types
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from .. import kernels, lowering
from ..calling.signature import Signature, Static
from ..errors import PACKAGE
from ..frontend.captured.leaves import Leaf, Opened
from ..frontend.captured.options import Options
from ..frontend.columns.list_columns import Columns
from ..pytree import Structure
from .digests import joined
from .references import classes_of, digest, parts, statics_of

FORMAT = 1
"""The version of the format of entries."""

_OWN = ("JITAD_CACHE_DIR", "JITAD_CACHE_SIZE", "JITAD_CACHE", "JITAD_NUM_THREADS", "JITAD_DUMP", "JITAD_DEBUG",
        "JITAD_VERIFY")
"""Environment variables that make no difference to code."""


def key(root: Any, derive: tuple[str, Any] | None, static: tuple[str | int, ...], whole: bool, options: Options,
        signature: Signature) -> str:
    """The key of the code of a function, or of a derivative of it, for a signature."""
    return joined([FORMAT, environment(), *_function(root), repr(derive), repr(static), whole, repr(options),
                   *_signature(signature)])


def _function(root: Any) -> Iterator[str]:
    """The function, and the functions that a transform or a method is made from."""
    yield str(getattr(root, "__module__", ""))
    yield str(getattr(root, "__qualname__", ""))
    yield digest(root)
    for name, part in parts(root) if not isinstance(root, types.FunctionType) else ():
        yield name
        for x in part if isinstance(part, tuple) else (part,):
            yield from _function(x)


def _signature(signature: Signature) -> Iterator[str]:
    yield _described(signature.structure)
    for cls in classes_of(signature.structure):
        yield digest(cls)
    for node in statics_of(signature.structure):
        yield repr(node.static)
    for leaf in signature.leaves:
        if isinstance(leaf, Leaf):
            yield f"{leaf.type} {leaf.weak}"
        elif isinstance(leaf, Opened):
            yield f"opened {digest(leaf.cls)}"
        else:
            yield from _static(leaf)


def _static(leaf: Static) -> Iterator[str]:
    if callable(leaf.value):
        yield from _function(leaf.value)
    else:
        yield f"{type(leaf.value).__module__}.{type(leaf.value).__qualname__} {leaf.value!r}"


def _described(s: Structure) -> str:
    if s.is_leaf:
        return "*"
    assert s.type is not None
    if s.type is Columns:
        return f"list({_described(s.static.element)}: {s.static.cells} {s.static.counts})"
    static = _keys(s.static)
    return f"{s.type.__module__}.{s.type.__qualname__}({static}: {', '.join(map(_described, s.children))})"


def _keys(static: Any) -> str:
    if isinstance(static, tuple):
        return repr([(type(k).__qualname__, k) for k in static])
    return f"{type(static).__qualname__} {static!r}" if isinstance(static, (str, type(None))) else ""


# --- the environment ------------------------------------------------------------------------------

def environment() -> str:
    """The versions and environment variables that code depends on; the variables may change while the process runs."""
    chosen = sorted((k, v) for k, v in os.environ.items() if k.startswith("JITAD_") and k not in _OWN)
    return joined([_versions(), *(f"{k}={v}" for k, v in chosen)])


@cache
def _versions() -> str:
    return joined([sys.version, sys.implementation.cache_tag, sys.flags.optimize, sys.flags.dev_mode, sys.executable,
                   platform.machine(), np.__version__, _processor(), *_llvmlite(), *_own_source()])


def _processor() -> str:
    """The model and the features of this machine's first processor, as the system describes them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(8192).partition("\n\n")[0]
    except OSError:
        return platform.processor()
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU part")
    return "\n".join(line for line in text.splitlines() if line.partition("\t")[0].strip(": ") in wanted)


def _llvmlite() -> Iterator[str]:
    """The files of llvmlite, which is not imported for this."""
    spec = importlib.util.find_spec("llvmlite")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from _facts(folder, lambda name: name.endswith(".py"), deep=False)
        yield from _facts(os.path.join(folder, "binding"), lambda name: name.endswith((".so", ".dylib")), deep=False)


def _own_source() -> Iterator[str]:
    """The files of jitad itself."""
    for folder in dict.fromkeys((PACKAGE, *lowering.__path__, *kernels.__path__)):
        yield from _facts(folder, lambda name: name.endswith(".py"))


def _facts(folder: str, wanted: Any, deep: bool = True) -> Iterator[str]:
    """Path, time and size of the files in a folder."""
    with os.scandir(folder) as found:
        for entry in sorted(found, key=lambda e: e.name):
            if wanted(entry.name):
                facts = entry.stat()
                yield f"{entry.path} {facts.st_mtime_ns} {facts.st_size}"
            elif deep and "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _facts(entry.path, wanted)
