"""Benchmarks: ``python -m bench.NAME`` runs one, ``python -m bench`` all.

Every program is checked to give the same result before it is timed, runs on one thread, and is measured in
rounds in which the programs take turns; medians are reported.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "JITAD"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
if hasattr(os, "sched_setaffinity"):                # also for the threads that do not ask
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
