"""Shared by all tests: the verifier runs after every pass, what is run is compiled here and not read from disk, and
hypothesis takes no time limit from a busy machine."""

import gc
import os

os.environ.setdefault("JITAD_DEBUG", "1")
os.environ.setdefault("JITAD_CACHE_DIR", "")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# A collection looks at all that the tests before have left: with Python's own thresholds a tenth of the time.
gc.set_threshold(20_000, 20, 100)

settings.register_profile("jitad", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("jitad")
