"""CasADi as a peer: a symbolic function and its gradient, run by its virtual machine and as generated C code."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.case import OUT, Case, Program


def add_casadi(case: Case, value: Callable[..., Any], inputs: Sequence[Any], wrt: tuple[int, ...] = (0,),
               results: Callable[[Any], Any] = lambda found: found) -> None:
    """Adds ``value(casadi, *symbols)``, or value and gradient ``wrt`` some of the inputs.

    ``results`` converts the outputs for comparison: the value, then the gradients, as flat arrays.
    """
    shapes = [np.atleast_1d(a).size for a in inputs]

    def function() -> Any:
        import casadi

        symbols = [casadi.MX.sym(f"x{i}", n) for i, n in enumerate(shapes)]
        out = value(casadi, *symbols)
        outputs = [out, *(casadi.gradient(out, symbols[i]) for i in wrt)] if case.kind == "gradient" else [out]
        return casadi.Function(f"{value.__name__}_{case.kind}", symbols, outputs)

    def make(ready: Callable[[Any], Any]) -> Program:
        run = ready(function())
        return lambda: results(tuple(np.asarray(part).ravel() for part in run(*inputs))
                               if case.kind == "gradient" else float(run(*inputs)))
    case.add("CasADi", functools.partial(make, lambda f: f))
    case.add("CasADi, its C by gcc", functools.partial(make, by_gcc))


def by_gcc(function: Any) -> Any:
    """The function as C, compiled like our own."""
    import casadi

    OUT.mkdir(parents=True, exist_ok=True)
    name = function.name()
    generator = casadi.CodeGenerator(f"{name}.c")
    generator.add(function)
    source = generator.generate(f"{OUT}/")
    library = OUT / f"casadi_{name}.so"
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", str(library), "-lm"], check=True)
    return casadi.external(name, str(library))
