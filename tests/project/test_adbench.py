"""The benchmarks' ADBench programs on small instances: against differences, against C, and the known values."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.case import Bench, Missing
from bench.peers.common import c_call, compiled
from bench.programs import ba
from jitad import interpret, jit

SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"


def small_scene() -> ba.Problem:
    """Two cameras, the second without rotation, three points and six observations."""
    rng = np.random.default_rng(0)
    cameras = rng.normal(size=(2, 11)) / 4
    cameras[1, :3] = 0
    cameras[:, 6] = 20.0
    points = rng.normal(size=(3, 3)) + [0, 0, 5]
    seen = np.stack([np.arange(6) % 2, np.arange(6) % 3], axis=1)
    return ba.Problem(cameras, points, rng.uniform(0.5, 1, 6), rng.normal(size=(6, 2)), seen)


def by_differences(problem: ba.Problem, i: int, step: float = 1e-5) -> np.ndarray:
    """The block of one observation, by central differences of fourth order of the plain Python function."""
    camera, point = problem.seen[i]
    x = np.concatenate((problem.cameras[camera], problem.points[point], problem.weights[i:i + 1]))

    def error(x: np.ndarray) -> np.ndarray:
        return ba.residual(x[:11], x[11:14], x[14], problem.features[i])

    columns = []
    for k in range(15):
        e = np.zeros(15)
        e[k] = step
        columns.append((8 * (error(x + e) - error(x - e)) - (error(x + 2 * e) - error(x - 2 * e))) / (12 * step))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("function", [ba.jacobian, ba.jacobian_mapped])
def test_blocks_against_differences(function: Callable) -> None:
    problem = small_scene()
    blocks, slopes = jit(function)(*problem)
    for i in range(6):
        np.testing.assert_allclose(blocks[i], by_differences(problem, i), rtol=2e-7, atol=2e-7)
    np.testing.assert_array_equal(slopes, -2 * problem.weights)


def test_blocks_against_the_meaning() -> None:
    problem = small_scene()
    some = problem._replace(weights=problem.weights[:2])
    for ours, theirs in zip(jit(ba.jacobian)(*some), interpret(ba.jacobian, *some)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_blocks_against_c() -> None:
    problem = small_scene()
    errors, penalties, blocks, slopes = np.empty((6, 2)), np.empty(6), np.empty((6, 2, 15)), np.empty(6)
    c_call(compiled("ba").ba_residuals, 6, *problem, errors, penalties)()
    c_call(compiled("ba").ba_jacobian, 6, *problem, blocks, slopes)()
    for ours, theirs in zip((*jit(ba.residuals)(*problem), *jit(ba.jacobian)(*problem)),
                            (errors, penalties, blocks, slopes)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.slow
def test_places_of_the_blocks() -> None:
    """The whole matrix times a step is the difference of the residuals."""
    problem = small_scene()
    blocks, _ = jit(ba.jacobian)(*problem)
    rows, columns = ba.entries(problem)
    whole = np.zeros((12, 2 * 11 + 3 * 3 + 6))
    whole[rows, columns] = blocks
    step = 1e-6 * np.random.default_rng(1).normal(size=whole.shape[1])
    moved = problem._replace(cameras=problem.cameras + step[:22].reshape(2, 11),
                             points=problem.points + step[22:31].reshape(3, 3), weights=problem.weights + step[31:])
    residuals = jit(ba.residuals)
    difference = (residuals(*moved)[0] - residuals(*problem)[0]).ravel()
    np.testing.assert_allclose(whole @ step, difference, rtol=1e-4, atol=1e-9)


def test_data_that_are_missing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, None, True, 1)
    with pytest.raises(Missing, match="ba1_n49_m7776_p31843.txt, which is not on this machine"):
        next(ba.cases(bench))


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared data")
def test_adbench_instance() -> None:
    problem = ba.load(SHARED / "adbench/ba/test.txt")
    assert [len(part) for part in problem] == [2, 10, 10, 10, 10]
    blocks, _ = jit(ba.jacobian)(*problem)
    np.testing.assert_allclose(blocks[3], by_differences(problem, 3), rtol=1e-6, atol=1e-6 * np.abs(blocks[3]).max())
