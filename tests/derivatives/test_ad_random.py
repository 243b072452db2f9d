"""Random IR programs: reverse mode against forward mode (exactly transposed) and both against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from jitad.ad import differentiate
from jitad.cps import to_cps
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.types import is_float
from jitad.ir.verify import verify
from tests.ir import irgen


def _flat(values) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])


def derived(seed: int, second: bool, **options):
    """A random module in cps form with vjp and jvp of ``main`` (and of its vjp)."""
    module = irgen.generate(seed, smooth=True, **options)
    to_cps(module)
    main = module.functions["main"]
    wrt = tuple(i for i, t in enumerate(main.param_types) if is_float(t))
    names = [module.derive("main", "vjp", wrt), module.derive("main", "jvp", wrt)]
    if second:
        names += [module.derive(names[0], "jvp", wrt), module.derive(names[0], "vjp", wrt)]
    differentiate(module)
    verify(module, linear=False)
    return module, wrt, names


def random_like(rng: np.random.Generator, values):
    return [rng.normal(size=np.shape(v)) if np.shape(v) else float(rng.normal()) for v in values]


def _smooth_here(value, args, wrt, directions) -> tuple[np.ndarray, bool]:
    """The central difference, and a flag: True if two step sizes agree on it (no kink or overflow nearby)."""
    out = []
    for eps in (1e-6, 3e-6):
        up, down = ([a + s * eps * directions[wrt.index(i)] if i in wrt else a for i, a in enumerate(args)]
                    for s in (1, -1))
        out.append((value(up) - value(down)) / (2 * eps))
    return out[0], bool(np.allclose(out[0], out[1], rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("seed", [*range(150), 156])        # 156: results behind two merged loops
def test_reverse_is_forward_transposed(seed: int) -> None:
    module, wrt, (vjp, jvp) = derived(seed, second=False)
    args = irgen.arguments(seed)
    run = Interpreter(module).run
    with np.errstate(all="ignore"):
        results = run("main", args)
        if not np.all(np.isfinite(_flat(results))) or np.max(np.abs(_flat(results))) > 1e8:
            return
        rng = np.random.default_rng(seed)
        cts, tangents = random_like(rng, results), random_like(rng, [args[i] for i in wrt])
        gradient = run(vjp, [*args, *cts])[len(results):]
        tangent = run(jvp, [*args, *tangents])[len(results):]
        left, right = _flat(gradient) @ _flat(tangents), _flat(cts) @ _flat(tangent)
        np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)
        numeric, smooth = _smooth_here(lambda at: _flat(run("main", at)), args, wrt, tangents)
        if smooth:
            np.testing.assert_allclose(_flat(tangent), numeric, rtol=1e-3, atol=1e-4 * (1 + np.max(np.abs(numeric))))


@pytest.mark.parametrize("seed", [*range(60), 132])
def test_second_derivatives(seed: int) -> None:
    """Reverse over reverse against forward over reverse: the Hessian of cts·main is symmetric."""
    module, wrt, (vjp, _, over, second) = derived(seed, second=True, statements=5)
    args = irgen.arguments(seed)
    run = Interpreter(module).run
    with np.errstate(all="ignore"):
        results = run("main", args)
        if not np.all(np.isfinite(_flat(results))) or np.max(np.abs(_flat(results))) > 1e4:
            return
        rng = np.random.default_rng(seed)
        cts = random_like(rng, results)
        v = random_like(rng, [args[i] for i in wrt])
        zero = [np.zeros(np.shape(r)) if np.shape(r) else 0.0 for r in results]
        forward = run(over, [*args, *cts, *v])
        reverse = run(second, [*args, *cts, *zero, *v])
        count = len(wrt)
        np.testing.assert_allclose(_flat(reverse[-count:]), _flat(forward[-count:]), rtol=1e-7, atol=1e-7)
