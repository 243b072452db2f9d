"""Enzyme as a peer: C++ that it differentiates in LLVM, through its JAX wheel.

The wheel compiles without headers, so functions of the C library are declared here, and sizes are macros.  A function
takes references to ``enzyme::tensor<double, size>``: the output, then the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.case import HERE, Case, Program

FUNCTIONS = "exp log sin cos tanh sqrt fabs erf"
DECLARED = "".join(f'extern "C" {t} {name}{suffix}({t}) noexcept;\n' for name in FUNCTIONS.split()
                   for t, suffix in (("double", ""), ("float", "f")))


def compiled(source: str, name: str, shapes: Sequence[tuple[int, ...]], sizes: dict[str, int],
             dtype: str = "float64") -> Callable[..., Any]:
    """Function ``name`` of ``bench/c/source_enzyme.cpp`` for JAX, with outputs of these shapes."""
    import jax
    import jax.numpy as jnp
    from enzyme_ad.jax import cpp_call

    macros = "".join(f"#define {macro} {size}\n" for macro, size in sizes.items())
    text = macros + DECLARED + (HERE / "c" / f"{source}_enzyme.cpp").read_text()
    outputs = [jax.core.ShapedArray(shape, jnp.dtype(dtype)) for shape in shapes]
    return lambda *args: cpp_call(*args, out_shapes=outputs, source=text, fn=name, argv=("-O3",))


def add_enzyme(case: Case, source: str, inputs: Sequence[Any], wrt: int | tuple[int, ...] = 0, *,
               function: str | None = None, sizes: dict[str, int] | None = None, dtype: str = "float64",
               results: Callable[[Any], Any] = lambda found: found) -> None:
    """Adds ``function`` of ``bench/c/source_enzyme.cpp``: its value, or value and gradient ``wrt`` some of the inputs.

    ``results`` converts them for comparison: arrays are flat.
    """
    def make() -> Program:
        import jax
        import jax.numpy as jnp

        call = compiled(source, function or source, [(1,)], sizes or {}, dtype)

        def value(*args: Any) -> Any:
            return call(*args)[0][0]
        given = [jnp.asarray(np.atleast_1d(a).ravel()) for a in inputs]
        run = jax.jit(value if case.kind == "value" else jax.value_and_grad(value, wrt))
        return lambda: results(jax.block_until_ready(run(*given)))
    case.add("Enzyme", make)

