"""Settings of all tests: the verifier runs after every stage, in every fourth test after every pass; machine code is
compiled and not read from disk; hypothesis has no time limit.

``pytest --first`` runs the first case of each test, and no test that is marked ``slow``, one that takes more
than a third of a second; the verifier runs after stages only (``make check``).  With ``--slow`` these tests run as well
(``make cpus``).
*Long* are the cases of tests marked ``long``, and of tests marked ``slow`` all but the first.
``--long sample`` runs every 24th of all long cases, and all others (``make test``), and
``--long rest`` the cases that this leaves out (``make long``); ``--long 1/3`` to ``3/3`` run every third one of them,
and all that are not long (``.ci/run``, in turns).  Without it all tests run.  Tests marked
``any_level`` concern stages before machine code: they run at the level of LLVM that takes least time, unless
``JITAD_OPT`` is set; with ``--some-as-users`` every fourth of them at the level that users have (``.ci/run``).
"""

from __future__ import annotations

import gc
import os
import zlib
from collections import Counter
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

THIRDS = ("1/3", "2/3", "3/3")
SAMPLED = 24                     # of this many cases of long tests, ``make test`` runs one
AS_USERS = 4                     # of this many tests at any level, ``.ci/run`` has one at the level of users
EACH_PASS = 4                    # of this many tests, one verifies after each pass
_as_users = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", action="store_true", help="of each test its first case, and none marked slow")
    parser.addoption("--slow", action="store_true", help="with --first, tests marked slow as well")
    parser.addoption("--some-as-users", action="store_true", help="some of the tests marked any_level at users' level")
    parser.addoption("--long", choices=("sample", "rest", *THIRDS),
                     help="a sample of the long cases, the rest, or every third one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = items
    if config.getoption("--first"):
        timely = [item for item in items if config.getoption("--slow") or not item.get_closest_marker("slow")]
        kept = [item for item, number in _numbered(timely) if number == 0]
    elif part := config.getoption("--long"):
        long = [item for item, number in _numbered(items)
                if item.get_closest_marker("long") or number > 0 and item.get_closest_marker("slow")]
        every, first = (len(THIRDS), THIRDS.index(part)) if part in THIRDS else (SAMPLED, 0)
        rest = [item for number, item in enumerate(long) if number % every != first]
        left_out = set(map(id, rest))
        kept = rest if part == "rest" else [item for item in items if id(item) not in left_out]
    chosen = set(map(id, kept))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = kept
    if config.getoption("--some-as-users"):
        for item in [item for item in kept if item.get_closest_marker("any_level")][::AS_USERS]:
            item.stash[_as_users] = True


def _numbered(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, int]]:
    """Each item with its number among the cases of its test."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        yield item, seen[test]
        seen[test] += 1


@pytest.fixture(autouse=True)
def _level(request: pytest.FixtureRequest) -> None:
    at_any = request.node.get_closest_marker("any_level") and not request.node.stash.get(_as_users, False)
    if at_any and "JITAD_OPT" not in os.environ:
        request.getfixturevalue("monkeypatch").setenv("JITAD_OPT", "0")
    seldom = request.config.getoption("--first") or zlib.crc32(request.node.nodeid.encode()) % EACH_PASS
    if "JITAD_VERIFY" not in os.environ and seldom:
        request.getfixturevalue("monkeypatch").setenv("JITAD_VERIFY", "stages")


@pytest.fixture(scope="module", autouse=True)
def _what_stays_is_not_looked_at_again() -> Iterator[None]:
    """Excludes the compiled functions of a module from later garbage collections."""
    yield
    gc.collect()
    gc.freeze()
