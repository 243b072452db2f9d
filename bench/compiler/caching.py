"""First calls in new processes with ``jit(cache=True)``: while nothing is on disk, and afterwards.

``python -m bench.compiler.caching [ROUNDS]`` prints, for the gradient of a TreeLSTM and the log-likelihood of a Kalman
filter, the time to import what the program needs and that of the first call beyond it: processor time, and wall time in
brackets; the least of the rounds.  Numba with ``cache=True`` runs the filter beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
Time = tuple[float, float]


def now() -> Time:
    return time.process_time(), time.perf_counter()


def since(start: Time) -> Time:
    processor, wall = now()
    return processor - start[0], wall - start[1]


def treelstm() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import numpy as np

    from examples.treelstm import Tree, make_net, tree_and_words_loss
    rows = [[0, -1, 1, 2], [-1, 0, -1, -1], [-1, -1, 3, 4], [-1, 1, -1, -1], [-1, 2, -1, -1]]
    return tree_and_words_loss.grad, (make_net(48, 24, 5, 3), Tree(*np.array(rows, dtype=np.int64).T.copy()))


def kalman() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from bench.programs.kalman import example, log_likelihood
    from jitad import jit
    return jit(log_likelihood), example()


def kalman_in_numba() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import numba

    from bench.programs import kalman
    kalman.log_density = numba.njit(cache=True)(kalman.log_density)             # type: ignore[assignment]
    return numba.njit(cache=True)(kalman.log_likelihood), kalman.example()


PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "TreeLSTM, gradient": treelstm, "Kalman filter, log-likelihood": kalman, "the same in Numba": kalman_in_numba}


def one(name: str) -> None:
    """Runs one program in this process, and prints its times."""
    start = now()
    program, arguments = PROGRAMS[name]()
    imported = since(start)
    start = now()
    program(*arguments)
    print(json.dumps([imported, since(start)]))


def process(name: str, folder: str) -> list[Time]:
    environment = os.environ | {"JITAD_CACHE": "1", "JITAD_CACHE_DIR": f"{folder}/jitad", "NUMBA_CACHE_DIR": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = subprocess.run([sys.executable, "-m", "bench.compiler.caching", "--one", name], cwd=ROOT, env=environment,
                         stdout=subprocess.PIPE, text=True, check=True)
    found: list[Time] = json.loads(run.stdout.splitlines()[-1])
    return found


def shown(times: list[Time]) -> str:
    return f"{1e3 * min(t[0] for t in times):8.1f} ({1e3 * min(t[1] for t in times):.1f})"


def main(rounds: int) -> None:
    print(f"{'milliseconds':30} {'import':>18} {'first call, cold':>20} {'warm':>18}")
    for name in PROGRAMS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                process(name, folder)                        # Python's own cache of what is imported
            with tempfile.TemporaryDirectory() as folder:
                cold = process(name, folder)
                warm = [process(name, folder) for _ in range(rounds)]
        except subprocess.CalledProcessError:
            print(f"{name:30} does not run here")
            continue
        print(f"{name:30} {shown([w[0] for w in warm]):>18} {shown([cold[1]]):>20} {shown([w[1] for w in warm]):>18}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 5)
