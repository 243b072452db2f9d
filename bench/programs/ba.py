"""ADBench's bundle adjustment: reprojection errors, and their sparse Jacobian as a dense block per observation.

An observation has one of the cameras (11 numbers), one of the points (3), and a weight.  Its error is two numbers, so
its part of the Jacobian is 2 by 15; the weight's own error 1 − w² adds −2w.  The positions of these entries in the
whole matrix do not depend on their values: ``entries`` computes them, and is not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.case import OURS, Bench, Case, Program
from bench.peers import enzyme_peer
from bench.peers.common import add_c, add_ours
from jitad import jacrev, jit, vmap

TITLE = "ADBench: bundle adjustment, with its sparse Jacobian"
SIZES = {"ba1": "ba1_n49_m7776_p31843", "ba7": "ba7_n93_m61203_p287451"}


class Problem(NamedTuple):
    cameras: Any            # (n, 11): rotation (axis times angle), centre, focal length, principal point, k1, k2
    points: Any             # (m, 3)
    weights: Any            # (p,)
    features: Any           # (p, 2): the image of its point in each observation
    seen: Any               # (p, 2): the camera and the point of each observation


# --- the program ----------------------------------------------------------------------------------

def rotated(r: Any, v: Any) -> Any:
    """Rodrigues' formula: ``v`` rotated about ``r`` by the angle |r|."""
    square = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    cross = r[1] * v[2] - r[2] * v[1], r[2] * v[0] - r[0] * v[2], r[0] * v[1] - r[1] * v[0]
    if square == 0.0:
        return v[0] + cross[0], v[1] + cross[1], v[2] + cross[2]
    angle = math.sqrt(square)
    c, s = math.cos(angle), math.sin(angle) / angle
    k = (1 - c) / square * (r[0] * v[0] + r[1] * v[1] + r[2] * v[2])
    return (c * v[0] + s * cross[0] + k * r[0], c * v[1] + s * cross[1] + k * r[1],
            c * v[2] + s * cross[2] + k * r[2])


def residual(camera: Any, point: Any, weight: float, feature: Any) -> Any:
    """The error of one observation: two numbers."""
    x, y, z = rotated(camera[:3], (point[0] - camera[3], point[1] - camera[4], point[2] - camera[5]))
    x, y = x / z, y / z
    square = x * x + y * y
    scale = camera[6] * (1 + camera[9] * square + camera[10] * square * square)
    return np.array([weight * (scale * x + camera[7] - feature[0]), weight * (scale * y + camera[8] - feature[1])])


def rows_known(cameras: Any, points: Any, features: Any, seen: Any) -> Any:
    """The same arrays, with the lengths of their rows in their types.

    The derivatives by a camera and a point are then small arrays of fixed size, which need no memory.
    """
    return cameras.reshape(-1, 11), points.reshape(-1, 3), features.reshape(-1, 2), seen.reshape(-1, 2)


def residuals(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """The errors of all observations, (p, 2), and of all weights, (p,)."""
    errors = np.empty((len(weights), 2))
    for i in range(len(weights)):
        errors[i] = residual(cameras[seen[i, 0]], points[seen[i, 1]], weights[i], features[i])
    return errors, 1 - weights * weights


def jacobian(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """The blocks of all observations, (p, 2, 15): by camera, point and weight; and the derivatives of 1 − w², (p,)."""
    cameras, points, features, seen = rows_known(cameras, points, features, seen)
    blocks = np.empty((len(weights), 2, 15))
    for i in range(len(weights)):
        by_camera, by_point, by_weight = jacrev(residual, (0, 1, 2))(
            cameras[seen[i, 0]], points[seen[i, 1]], weights[i], features[i])
        blocks[i, :, :11] = by_camera
        blocks[i, :, 11:14] = by_point
        blocks[i, :, 14] = by_weight
    return blocks, -2 * weights


def jacobian_mapped(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """The same by ``vmap``, as usual in JAX."""
    cameras, points, features, seen = rows_known(cameras, points, features, seen)
    by_camera, by_point, by_weight = vmap(jacrev(residual, (0, 1, 2)))(
        cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
    return np.concatenate((by_camera, by_point, by_weight[:, :, None]), axis=2), -2 * weights


# --- data -----------------------------------------------------------------------------------------

def load(path: Path) -> Problem:
    """An instance in ADBench's format, which repeats one camera, point, weight and feature."""
    numbers = path.read_text().split()
    n, m, p = (int(v) for v in numbers[:3])
    camera, point, weight, feature = np.split(np.array(numbers[3:], float), [11, 14, 15])
    i = np.arange(p)
    return Problem(np.tile(camera, (n, 1)), np.tile(point, (m, 1)), np.tile(weight, p), np.tile(feature, (p, 1)),
                   np.stack([i % n, i % m], axis=1))


def entries(problem: Problem) -> tuple[Any, Any]:
    """Rows and columns of the blocks' entries, each (p, 2, 15), in ADBench's Jacobian.

    There is a row for each number of an observation, then one for each weight; columns for the cameras, then the
    points, then the weights.
    """
    n, m, p = len(problem.cameras), len(problem.points), len(problem.weights)
    camera, point, i = problem.seen[:, :1], problem.seen[:, 1:], np.arange(p)[:, None]
    columns = np.concatenate((11 * camera + np.arange(11), 11 * n + 3 * point + np.arange(3), 11 * n + 3 * m + i),
                             axis=1)
    return (np.broadcast_to((2 * i + np.arange(2))[:, :, None], (p, 2, 15)),
            np.broadcast_to(columns[:, None, :], (p, 2, 15)))


# --- peers ----------------------------------------------------------------------------------------

def of_arrays(xp: Any, stack: Callable[[list[Any]], Any], camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    """The error of one observation for array libraries: computes both sides of the branch, at safe points."""
    r, v = camera[:3], point - camera[3:6]
    square = (r * r).sum()
    safe = xp.where(square == 0, xp.ones_like(square), square)
    angle = xp.sqrt(safe)
    c, s = xp.cos(angle), xp.sin(angle) / angle
    cross = stack([r[1] * v[2] - r[2] * v[1], r[2] * v[0] - r[0] * v[2], r[0] * v[1] - r[1] * v[0]])
    turned = xp.where(square == 0, v + cross, c * v + s * cross + (1 - c) / safe * (r * v).sum() * r)
    x = turned[:2] / turned[2]
    square = (x * x).sum()
    return weight * (camera[6] * (1 + camera[9] * square + camera[10] * square * square) * x + camera[7:9] - feature)


def in_jax(problem: Problem, derivative: bool) -> Program:
    import jax
    import jax.numpy as jnp

    def error(*args: Any) -> Any:
        return of_arrays(jnp, jnp.stack, *args)

    def run(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
        given = cameras[seen[:, 0]], points[seen[:, 1]], weights, features
        if not derivative:
            return jax.vmap(error)(*given), 1 - weights * weights
        by_camera, by_point, by_weight = jax.vmap(jax.jacfwd(error, (0, 1, 2)))(*given)       # faster than jacrev
        return jnp.concatenate((by_camera, by_point, by_weight[:, :, None]), axis=2), -2 * weights

    compiled, given = jax.jit(run), [jnp.asarray(a) for a in problem]
    return lambda: jax.block_until_ready(compiled(*given))


def in_torch(problem: Problem, derivative: bool) -> Program:
    import torch
    from torch.func import jacrev, vmap

    torch.set_num_threads(1)
    cameras, points, weights, features, seen = (torch.as_tensor(a) for a in problem)

    def error(*args: Any) -> Any:
        return of_arrays(torch, torch.stack, *args)

    def run() -> Any:
        given = cameras[seen[:, 0]], points[seen[:, 1]], weights, features
        if not derivative:
            return vmap(error)(*given), 1 - weights * weights
        by_camera, by_point, by_weight = vmap(jacrev(error, (0, 1, 2)))(*given)
        return torch.cat((by_camera, by_point, by_weight[:, :, None]), dim=2), -2 * weights
    return run


def add_c_and_enzyme(case: Case, problem: Problem, derivative: bool) -> None:
    p = len(problem.weights)
    outputs = (np.empty((p, 2, 15) if derivative else (p, 2)), np.empty(p))
    add_c(case, "ba", "ba_jacobian" if derivative else "ba_residuals", p, *problem, *outputs, results=lambda _: outputs)
    given = [problem.cameras[problem.seen[:, 0]], problem.points[problem.seen[:, 1]], problem.weights, problem.features]

    def in_enzyme() -> Program:
        import jax
        import jax.numpy as jnp

        name, shape, use = ("weighted", (1,), _rows) if derivative else ("residuals", (p, 2), _errors)
        function = enzyme_peer.compiled("ba", name, [shape], {"OBSERVATIONS": p})
        run, arrays = jax.jit(use(function)), [jnp.asarray(a) for a in given]
        return lambda: jax.block_until_ready(run(*arrays))
    case.add("Enzyme", in_enzyme)


def _errors(f: Any) -> Any:
    """Enzyme's function takes the cameras and points gathered by observation."""
    return lambda cameras, points, weights, features: (f(cameras, points, weights, features)[0], 1 - weights * weights)


def _rows(f: Any) -> Any:
    """Two reverse sweeps over all observations, one for each of their numbers."""
    import jax
    import jax.numpy as jnp

    gradient = jax.grad(lambda *args: f(*args)[0][0], (0, 1, 2))

    def run(cameras: Any, points: Any, weights: Any, features: Any) -> Any:
        sweeps = [gradient(cameras, points, weights, features, jnp.asarray(by)) for by in ((1.0, 0.0), (0.0, 1.0))]
        rows = [jnp.concatenate((camera, point, weight[:, None]), 1) for camera, point, weight in sweeps]
        return jnp.stack(rows, axis=1), -2 * weights
    return run


# --- cases ----------------------------------------------------------------------------------------

def cases(bench: Bench) -> Iterator[Case]:
    for name in ("ba1",) if bench.quick else SIZES:
        yield from problem_cases(bench, f"BA {name}", load(bench.file(f"adbench/ba/{SIZES[name]}.txt")))


def problem_cases(bench: Bench, name: str, problem: Problem) -> Iterator[Case]:
    per = {"per": len(problem.weights), "unit": "an observation"}
    value = bench.case(name, "value", rtol=1e-9, **per)
    add_ours(value, residuals, lambda f: lambda: f(*problem))
    add_c_and_enzyme(value, problem, False)
    value.add("JAX", lambda: in_jax(problem, False))
    value.add("PyTorch", lambda: in_torch(problem, False))
    yield value
    blocks = bench.case(name, "jacobian", rtol=1e-8, **per)
    add_ours(blocks, jacobian, lambda f: lambda: f(*problem))
    mapped = jit(jacobian_mapped)
    blocks.add(f"{OURS} vmap", lambda: lambda: mapped(*problem))
    add_c_and_enzyme(blocks, problem, True)
    blocks.add("JAX", lambda: in_jax(problem, True))
    blocks.add("PyTorch", lambda: in_torch(problem, True))
    yield blocks
