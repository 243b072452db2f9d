"""Jitted functions in other processes: spawned workers, ``python -c``, joblib, Dask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent

PROGRAM = '''
import sys
from dataclasses import dataclass

import numpy as np

import jitad
from jitad import grad, jit

K = 2.0

@dataclass
class Params:
    a: float
    b: np.ndarray

@dataclass
class Leaf:
    w: float

@dataclass
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"

def total(t):
    if isinstance(t, Leaf):
        return t.w ** 2
    return total(t.left) + total(t.right)

def scaled(p, x):
    assert isinstance(p, Params)
    return K * p.a * np.sum(p.b * x)

loss = jit(scaled, grad=True)
TREE = Node(Leaf(1.0), Node(Leaf(2.0), Leaf(3.0)))
P = Params(3.0, np.arange(3.0))

def show(run):
    """Prints the results of ``run(function, list of arguments)``."""
    offset = 1.0
    print(run(jit(lambda x: x * K + offset), [(1.0,), (2.0,)]))
    print(run(grad(lambda x: x ** 3), [(1.0,), (2.0,)]))
    print(run(loss, [(P, np.ones(3))]), [float(g.a) for g in run(loss.grad, [(P, np.ones(3))])])
    print([g.right.left.w for g in run(grad(total), [(TREE,), (TREE,)])])
'''
EXPECTED = ["[3.0, 5.0]", "[3.0, 12.0]", "[18.0] [6.0]", "[4.0, 4.0]"]

POOL = PROGRAM + '''
if __name__ == "__main__":
    import multiprocessing
    if "--standard" in sys.argv:
        sys.modules["cloudpickle"] = None
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        show(pool.starmap)
'''


def run(*arguments: str, cwd: Path) -> list[str]:
    """The lines that a new interpreter prints."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--standard", "--cloudpickle"])
def test_a_spawned_pool(tmp_path: Path, option: str) -> None:
    """The workers load the main module, and take its classes, not the copies that came with the functions."""
    if option == "--cloudpickle":
        pytest.importorskip("cloudpickle")
    (tmp_path / "pool.py").write_text(POOL)
    assert run("pool.py", option, cwd=tmp_path) == EXPECTED


WRITE = """
import pickle, sys
import numpy as np
from jitad import grad, jit
sys.modules['cloudpickle'] = None
K = 3.0
def helper(x):
    return np.sin(x) * K
@jit(grad=True)
def f(x):
    return helper(x) * 2.0
with open('functions.pickle', 'wb') as file:
    file.write(pickle.dumps([f, f.grad, grad(grad(lambda x: x ** 3))]))
print(f(0.0), f.grad(0.0))
"""
READ = """
import inspect, pickle
from jitad import jit
K = 100.0
with open('functions.pickle', 'rb') as file:
    f, slope, curvature = pickle.loads(file.read())
def g(x):
    return x + K
print(f(0.0), slope(0.0), curvature(1.0), jit(g)(0.0), jit(lambda x: x - K)(0.0))
print(inspect.getsource(f.py_func).splitlines()[-1])
"""


@pytest.mark.slow
def test_functions_that_only_the_command_line_has(tmp_path: Path) -> None:
    """Their source travels; it does not hide that of the reader, whose file has the same name, ``<string>``."""
    assert run("-c", WRITE, cwd=tmp_path) == ["0.0 6.0"]
    assert run("-c", READ, cwd=tmp_path) == ["0.0 6.0 6.0 100.0 -100.0", "    return helper(x) * 2.0"]


@pytest.mark.slow
@pytest.mark.parametrize(("given", "what"), [
    (("-c", "exec('def f(x): return x')\njit = __import__('jitad').jit\njit(f)(1.0)"), "for `exec`, keep the text"),
    (("-",), "define it in a file"),
])
def test_functions_without_source(given: Any, what: str) -> None:
    program = "import jitad\njitad.jit(lambda x: x)(1.0)\n"
    done = subprocess.run([sys.executable, *given], input=program, capture_output=True, text=True, cwd=ROOT)
    if sys.version_info >= (3, 13) and not done.returncode:
        return                                               # it keeps more sources
    assert "has no source to read" in done.stderr and what in done.stderr


LOKY = PROGRAM + '''
if __name__ == "__main__":
    from joblib import Parallel, delayed
    workers = Parallel(n_jobs=2)
    show(lambda f, tasks: workers(delayed(f)(*args) for args in tasks))
    K = 4.0
    print(workers([delayed(loss)(P, np.ones(3))]))
'''


@pytest.mark.slow
def test_joblib(tmp_path: Path) -> None:
    """The workers of loky have another main module; ``K`` travels as it is when the call is made."""
    pytest.importorskip("joblib")
    (tmp_path / "tasks.py").write_text(LOKY)
    assert run("tasks.py", cwd=tmp_path) == [*EXPECTED, "[36.0]"]


DASK = PROGRAM + '''
@jit(grad=True)
def error(w, x, y):
    total = 0.0
    for i in range(len(x)):
        total += (np.tanh(w[0] * x[i] + w[1]) - y[i]) ** 2
    return total

if __name__ == "__main__":
    from dask.distributed import Client, LocalCluster
    w, x = np.array([0.3, -0.2]), np.linspace(0.0, 1.0, 1000)
    chunks = [(x[i:i + 125], np.tanh(x[i:i + 125])) for i in range(0, 1000, 125)]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        show(lambda f, tasks: client.gather([client.submit(f, *args) for args in tasks]))
        parts = [client.submit(error.grad, w, *chunk) for chunk in chunks]
        there = client.submit(sum, parts).result()
    here = sum(error.grad(w, *chunk) for chunk in chunks)
    print(np.array_equal(there, here), np.allclose(there, error.grad(w, x, np.tanh(x))))
'''


def test_dask(tmp_path: Path) -> None:
    """The sum of the gradients over chunks is that of one process."""
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(DASK)
    assert run("cluster.py", cwd=tmp_path) == [*EXPECTED, "True True"]
