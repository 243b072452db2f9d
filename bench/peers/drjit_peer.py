"""Dr.Jit as a peer: a function of arrays, traced once and replayed (``freeze``), on its LLVM backend.

It uses the system's libLLVM, or the one named by ``DRJIT_LIBLLVM_PATH``; without one, the peer is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.case import Case, Program


def add_drjit(case: Case, value: Callable[..., Any], inputs: Sequence[Any], wrt: tuple[int, ...] = (0,),
              results: Callable[[Any], Any] = lambda found: found) -> None:
    """Adds ``value(drjit, *arrays)``, or value and gradient ``wrt`` some of the inputs, which all have one dtype.

    ``results`` converts the value and the gradients for comparison.
    """
    def make() -> Program:
        import drjit
        from drjit.llvm import ad

        drjit.set_thread_count(1)
        kind = ad.Float32 if inputs[0].dtype == np.float32 else ad.Float64
        given = [kind(a) for a in inputs]

        @drjit.freeze
        def plain(*arrays: Any) -> Any:
            return value(drjit, *arrays)

        @drjit.freeze
        def both(*arrays: Any) -> Any:
            arrays = tuple(kind(a) for a in arrays)
            chosen = [arrays[i] for i in wrt]
            drjit.enable_grad(*chosen)
            out = value(drjit, *arrays)
            drjit.backward(out)
            return drjit.detach(out), [drjit.grad(a) for a in chosen]
        function = both if case.kind == "gradient" else plain

        def run() -> Any:
            found = function(*given)
            drjit.eval(found)
            drjit.sync_thread()
            return results(found)
        return run
    case.add("Dr.Jit", make)


def numbers(found: Any) -> Any:
    """Value and gradients as NumPy arrays."""
    value, bars = found
    return value[0], [np.array(bar) for bar in bars]
