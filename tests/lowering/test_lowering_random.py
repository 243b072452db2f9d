"""Random programs and their derivatives through the whole pipeline: compiled code against the interpreter."""

from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import invoke
from jitad.lowering.math.options import Options

from jitad import pipeline
from jitad.ir.graph import Module
from jitad.ir.types import is_float
from tests.ir import irgen


def compiled(module: Module, name: str, args: list[Any], options: Options | None = None) -> Any:
    try:
        return invoke(module, name, args, options)
    except (ValueError, IndexError, ZeroDivisionError) as e:
        return type(e).__name__, str(e)


@pytest.mark.long
@pytest.mark.parametrize("arrays", [False, True], ids=["scalars", "arrays"])
@pytest.mark.parametrize("seed", range(25))
def test_values(seed: int, arrays: bool) -> None:
    module, args = irgen.generate(seed, arrays=arrays), irgen.arguments(seed, arrays=arrays)
    want = irgen.outcome(module, args)
    pipeline.run(module, ["main"])
    assert irgen.same(want, compiled(module, "main", args, Options(level=0 if seed % 5 == 0 else 1)), 1e-9)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("arrays", [False, True], ids=["scalars", "arrays"])
@pytest.mark.parametrize("seed", range(100, 110))
def test_derivatives(seed: int, arrays: bool) -> None:
    module, args = irgen.generate(seed, arrays=arrays, smooth=True), irgen.arguments(seed, arrays=arrays)
    main = module.functions["main"]
    wrt = [i for i, p in enumerate(main.params) if is_float(p.type)]
    first = module.derive("main", "vjp", wrt)
    second = module.derive(first, "vjp" if seed % 2 else "jvp", wrt)
    results = main.result_types
    pipeline.run(module, [first, second])
    for name, base in ((first, results), (second, module.functions[first].result_types)):
        given = list(args)
        rng = np.random.default_rng(seed)
        for t in module.functions[name].param_types[len(args):]:
            given.append(float(rng.normal()) if not hasattr(t, "dims") else _like(t, args, rng))
        want = irgen.outcome(module, given, name)
        assert base and irgen.same(want, compiled(module, name, given), 1e-7)


def _like(t: Any, args: list[Any], rng: np.random.Generator) -> np.ndarray:
    """Random values with the sizes of the first argument of that rank."""
    return rng.normal(size=next(np.shape(a) for a in args if np.ndim(a) == len(t.dims)))
