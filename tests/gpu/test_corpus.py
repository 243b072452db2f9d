"""Programs and their gradients on the simulated device, with each access checked: small programs that need different
kinds of kernels, the ordinary programs of the benchmarks, the examples.  ``ptxas`` takes their kernels, if it is there.
``tests/fuzzing`` runs random programs there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.device.emitter import Emitter
from jitad.lowering.gpu.ptx import ARCHITECTURES
from jitad.lowering.jit import cuda_toolkit
from jitad.lowering.math import ops

from bench.ordinary import FIELDS
from bench.programs import (
    ba,
    black_scholes,
    chain,
    factor,
    heat,
    hessian_product,
    kepler,
    lorenz,
    nbody,
    recurrence,
)
from examples import char_rnn, gmm, treelstm
from jitad import DeviceError, value_and_grad
from jitad.gpu.drivers import driver_of
from jitad.gpu.simulated import SimulatedDriver
from jitad.ir.types import Scalar
from tests.gpu.corpus import assembled
from tests.gpu.programs import Case, compare, compiled
from tests.gpu.simulated_cuda import REAL
from tests.gpu.small import PROGRAMS
from tests.loop_level.test_programs import programs, smaller

pytestmark = pytest.mark.any_level


def on_device(fun: Any, *args: Any) -> Case:
    """Asserts that a function on the device gives what the interpreter gives, and that there is no race.

    The device is the simulator, or NVIDIA's where tests are for that one (``make test-gpu``).
    """
    case = compiled(fun, *args)
    compare(case, driver_of("cuda") if REAL else SimulatedDriver(checked=True), 1e-8)
    return case


def assembles(case: Case, arch: str, folder: Path) -> None:
    """Asserts that all kernels of a program assemble."""
    if case.program.image.kernels and cuda_toolkit.libdevice() and cuda_toolkit.program("ptxas"):
        assembled(case.program.image, arch, folder)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs(name: str, tmp_path: Path) -> None:
    fun, args = PROGRAMS[name]
    assembles(on_device(fun, *args), "sm_90", tmp_path)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["shared array", "softmax", "layer", "scatter"])
def test_other_orders_of_threads(name: str) -> None:
    fun, args = PROGRAMS[name]
    case = compiled(fun, *args)
    for checked, order in ((True, 1), (False, None), (False, 2)):
        compare(case, SimulatedDriver(checked, order))


def plain_add(e: Emitter, t: Scalar, value: str, ptr: str) -> None:
    e.store(t, ops.apply(e, "add", t, [e.load(t, ptr), value], {}, t), ptr)


PLANTED = {"no barrier": ("barrier", lambda e: None, "training", "data race .* the shared array"),
           "addition that is not atomic": ("atomic_add", plain_add, "histogram", "data race .* of argument")}


@pytest.mark.parametrize("name", PLANTED)
def test_bugs_planted_in_the_lowering_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, wrong, program, told = PLANTED[name]
    monkeypatch.setattr(Emitter, method, wrong)
    fun, args = PROGRAMS[program]
    with pytest.raises(DeviceError, match=told) as error:
        compare(compiled(fun, *args), SimulatedDriver(checked=True), 1e-8)
    assert "small.py" in str(error.value)                # the user's line


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", FIELDS)
def test_ordinary_programs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kernels of values and gradients assemble, those of each field for another architecture."""
    arch = ARCHITECTURES[FIELDS.index(name) % len(ARCHITECTURES)]
    for p in programs(name, monkeypatch):
        for label, f in {"": p.function, **p.formulations}.items():
            args = [smaller(a) for a in p.others.get(label, p.args)]
            case = on_device(value_and_grad(f, p.grad) if p.grad else f, *args)
            for made in () if label else [case, *([compiled(f, *args)] if p.grad else [])]:
                assembles(made, arch, tmp_path)


def bench_programs() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The programs of ``bench/programs``, with their derivatives, for few numbers."""
    rng = np.random.default_rng(0)
    square, x = rng.normal(size=(4, 4)), rng.uniform(0.5, 3.0, 6)
    bodies = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.uniform(0.5, 1.5, 4)
    options = rng.uniform(0.5, 1.5, (5, 7))
    scene = ba.Problem(rng.normal(size=(2, 11)), rng.normal(size=(3, 3)) + [0, 0, 9.0], rng.uniform(size=4),
                       rng.normal(size=(4, 2)), np.array([[0, 1], [1, 2], [0, 0], [1, 1]]))
    return {"recurrence": (value_and_grad(recurrence.recurrence), (0.9, 0.3, 9)),
            "lorenz": (value_and_grad(lorenz.lorenz, (0, 1)), (lorenz.START, lorenz.PARAMETERS, lorenz.H, 5)),
            "kepler": (value_and_grad(kepler.kepler, (0, 1)), (rng.uniform(0, 0.9, 40), rng.uniform(-3, 3, 40))),
            "nbody": (value_and_grad(nbody.energy, (0, 1)), bodies),
            "heat": (value_and_grad(heat.heat, (0, 1)), (rng.normal(size=30), 0.1, 4)),
            "heat loops": (value_and_grad(heat.heat_loops, (0, 1)), (rng.normal(size=30), 0.1, 4)),
            "cholesky": (value_and_grad(factor.cholesky), (square @ square.T + 4 * np.eye(4),)),
            "lu": (value_and_grad(factor.lu), (square + 4 * np.eye(4),)),
            "black_scholes": (value_and_grad(black_scholes.total, (0, 2, 3, 4)), tuple(options)),
            "gamma": (black_scholes.gamma, tuple(options)),
            "chain": (value_and_grad(chain.chain), (rng.normal(size=300).astype(np.float32),)),
            "ba": (ba.residuals, tuple(scene)), "ba jacobian": (ba.jacobian_mapped, tuple(scene)),
            "hessian_product": (hessian_product.product, (x, rng.normal(size=6)))}


@pytest.mark.long
@pytest.mark.parametrize("name", bench_programs())
def test_programs_of_the_benchmarks(name: str) -> None:
    fun, args = bench_programs()[name]
    on_device(fun, *args)


@pytest.mark.long
@pytest.mark.slow
def test_examples() -> None:
    rng = np.random.default_rng(0)
    mixture = gmm.Mixture(rng.normal(size=3), rng.normal(size=(3, 4)), rng.normal(size=(3, 10)))
    on_device(value_and_grad(gmm.gmm_objective), mixture, rng.normal(size=(5, 4)), gmm.Prior(1.3, 1))
    text = np.arange(12).reshape(4, 3) % 5
    for kind, loss in ((char_rnn.RNN, char_rnn.rnn_loss), (char_rnn.LSTM, char_rnn.lstm_loss)):
        on_device(value_and_grad(loss), char_rnn.make_net(kind, 5, hidden=4, dtype=np.float64), text)
    trees, vocabulary = treelstm.standard_library(most=2)
    net = treelstm.make_net(3, 4, 5, vocabulary, dtype=np.float64)
    on_device(value_and_grad(treelstm.tree_and_words_loss), net, min(trees, key=lambda t: len(t.words)))
