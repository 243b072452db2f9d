"""jitad: gradients of ordinary Python programs at the speed of hand-written C.

The pipeline, file by file::

    api.py            jit
    pickling/         pickles of jitted functions
    caching/          compiled functions on disk
    calling/          the object that it returns; a call: its signature, compiled code and its guards, entry points
    compiler.py       the whole pipeline for one signature:
      frontend/         traces a Python function on stand-ins             Python  → "ir"
      cps.py            normalises control flow                           "ir"    → "cps"
      ad/               derivatives, forward and reverse                  "cps"   → "adjoint"
      passes/           the optimiser; pipeline.py is the list of passes          → "optimized"
      lowering/         LLVM IR, machine code, the CPython entry point            → "llvm", "asm", "ptx"
    ir/               types, ops, graph, text form, verifier, reference interpreter
    semantics/        the meaning of programs and derivatives: evaluation, traces, derivatives of traces
    reference.py      interpret: evaluation by the reference semantics
    evaluation.py     the same for plain functions
    testing.py        check_grads
    nondifferentiable.py   points without a derivative at which a program is evaluated
    random.py         random numbers with explicit state
    aot/              libraries with a C interface, built ahead of time
    gpu/              jit(target="cuda"): devices, arrays in their memory, calls
    disk_store.py     byte strings under keys, kept on disk
    errors.py         exceptions that show the user's line
    locks.py          the locks of compilation, and their order in a fork

``docs/internals/`` explains how each part works, and why.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import aot, gpu, random
    from .api import jit
    from .calling.signature import spec
    from .errors import (
        CompileError,
        DeviceError,
        DifferentiationError,
        JitadError,
        NondifferentiableWarning,
        ShapeError,
        TypeInferenceError,
        UnsupportedError,
    )
    from .frontend.callables.custom import custom_jvp, custom_vjp
    from .frontend.columns.pack import pack
    from .frontend.operations.builtin import unroll
    from .frontend.transforms.checkpoint import checkpoint
    from .frontend.transforms.transforms import (
        grad,
        hessian,
        hvp,
        jacfwd,
        jacrev,
        jvp,
        linearize,
        relu,
        stop_gradient,
        value_and_grad,
        vjp,
        vmap,
    )
    from .nondifferentiable import debug_nondifferentiable
    from .reference import interpret
    from .testing import check_grads

__version__ = "0.1.0"

if not os.path.isdir(os.path.join(__path__[0], "lowering")):
    __path__.append(os.path.dirname(__path__[0]))           # a checkout that is not installed: lowering/ is beside it

# The module of each public name.  It is imported when the name is first used, so that `import jitad` is fast.
_HOME = {
    **dict.fromkeys(("grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize", "relu", "stop_gradient",
                     "value_and_grad", "vjp", "vmap"), "frontend.transforms.transforms"),
    **dict.fromkeys(("custom_jvp", "custom_vjp"), "frontend.callables.custom"),
    "checkpoint": "frontend.transforms.checkpoint",
    **dict.fromkeys(("CompileError", "DeviceError", "DifferentiationError", "JitadError", "NondifferentiableWarning",
                     "ShapeError", "TypeInferenceError", "UnsupportedError"), "errors"),
    "debug_nondifferentiable": "nondifferentiable",
    "jit": "api", "pack": "frontend.columns.pack", "unroll": "frontend.operations.builtin", "interpret": "reference",
    "spec": "calling.signature", "check_grads": "testing",
}


_MODULES = ("aot", "gpu", "random")


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _HOME:
        raise importlib.import_module(".frontend.values.other_libraries", __name__).unknown_name(__name__, name)
    return importlib.import_module(".compiler_threads", __name__).with_room(lambda: _find(name))


def _find(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    home = _HOME[name]
    module = importlib.import_module(f".{home}", __name__)
    if home.startswith("frontend."):                        # outside traced code these are compiled like any function
        importlib.import_module(".api", __name__).register_transforms()
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})


__all__ = [
    "CompileError", "DeviceError", "DifferentiationError", "JitadError", "NondifferentiableWarning", "ShapeError",
    "TypeInferenceError", "UnsupportedError", "aot", "check_grads", "checkpoint", "custom_jvp", "custom_vjp",
    "debug_nondifferentiable", "gpu", "grad", "hessian", "hvp", "interpret", "jacfwd", "jacrev", "jit", "jvp",
    "linearize", "pack", "random", "relu", "spec", "stop_gradient", "unroll", "value_and_grad", "vjp", "vmap",
]
