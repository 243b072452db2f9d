"""Settings of all tests: the verifier runs after every pass, machine code is compiled and not read from disk, and
hypothesis has no time limit.

``pytest --first`` runs the first case of each test, and no test that is marked ``slow`` (``make check``).  Tests marked
``any_level`` concern stages before machine code: they run at the level of LLVM that takes least time, unless
``JITAD_OPT`` is set, as ``.ci/run`` does.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("JITAD_DEBUG", "1")
os.environ.setdefault("JITAD_CACHE_DIR", "")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# The garbage collector visits all objects left by earlier tests: with Python's own thresholds, a tenth of the time.
gc.set_threshold(20_000, 20, 100)

settings.register_profile("jitad", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("jitad")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", action="store_true", help="of each test its first case, and none marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--first"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            first.setdefault(item.nodeid.partition("[")[0], item)
    config.hook.pytest_deselected(items=[item for item in items if item not in set(first.values())])
    items[:] = first.values()


@pytest.fixture(autouse=True)
def _level(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("any_level") and "JITAD_OPT" not in os.environ:
        request.getfixturevalue("monkeypatch").setenv("JITAD_OPT", "0")


@pytest.fixture(scope="module", autouse=True)
def _what_stays_is_not_looked_at_again() -> Iterator[None]:
    """Excludes the compiled functions of a module from later garbage collections."""
    yield
    gc.collect()
    gc.freeze()
