"""Random IR programs through the whole pipeline: derivatives in compiled code against the interpreter.

The interpreter runs them unoptimised.
"""

from __future__ import annotations

import numpy as np
import pytest
from jitad.lowering.jit.invoke import invoke

from jitad import pipeline
from jitad.ad import differentiate
from jitad.cps import to_cps
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.types import is_float
from jitad.ir.verify import verify
from tests.derivatives.test_ad_random import _flat, random_like
from tests.ir import irgen


def _modules(seed: int, statements: int, second: bool):
    """(plain derivatives, the same through the pipeline, name of the derivative)."""
    found = []
    for optimised in (False, True):
        module = irgen.generate(seed, smooth=True, statements=statements)
        wrt = tuple(i for i, t in enumerate(module.functions["main"].param_types) if is_float(t))
        name = module.derive("main", "vjp", wrt)
        name = module.derive(name, "vjp", wrt) if second else name
        if optimised:
            pipeline.run(module, ["main", name])
            verify(module)
        else:
            to_cps(module)
            differentiate(module)
        found.append(module)
    return found[0], found[1], name


@pytest.mark.long
@pytest.mark.parametrize(("seed", "statements", "second"),
                         [(s, 8, False) for s in range(25)] + [(s, 3, True) for s in range(25, 50)])
def test_compiled_derivatives(seed: int, statements: int, second: bool) -> None:
    plain, optimised, name = _modules(seed, statements, second)
    args = irgen.arguments(seed)
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        results = Interpreter(plain).run("main", args)
        args = [*args, *random_like(rng, results)]
        if second:
            args += random_like(rng, Interpreter(plain).run(plain.derived[name].base, args))
        expected = _flat(Interpreter(plain).run(name, args))
        np.testing.assert_allclose(_flat(Interpreter(optimised).run(name, args)), expected, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(_flat(invoke(optimised, name, args)), expected, rtol=1e-7, atol=1e-7)
