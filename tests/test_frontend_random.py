"""Random programs: traced and interpreted they give CPython's values, or are refused; never another value."""

from __future__ import annotations

import linecache
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jitad.errors import TypeInferenceError, UnsupportedError

from . import pygen, tracing

INPUTS = (
    (0.7, 2, np.array([0.3, -0.6, 1.1])),
    (-0.4, 0, np.array([-1.0, 0.5, 0.1])),
    (1.5, 3, np.array([0.0, 2.0, -3.0])),
)
SEEDS = int(os.environ.get("JITAD_FUZZ", "60"))


def load(seed: int, size: int = 12) -> Callable[..., Any]:
    """``main`` of random program ``seed``."""
    source, name = pygen.program(seed, size), f"<random program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(source, name, "exec"), space)
    main: Callable[..., Any] = space["main"]
    return main


def verdict(main: Callable[..., Any]) -> str:
    """``ok``, ``refused: …``, or what is wrong."""
    try:
        traced = tracing.trace(main, *INPUTS[0])
    except (UnsupportedError, TypeInferenceError) as e:
        return f"refused: {e.message}"
    for args in INPUTS:
        want = tracing.outcome(main, *args)
        got = tracing.outcome(lambda *a: tracing.run(traced, *a), *args)
        if not tracing.agree(got, want):
            return f"wrong for n={args[1]}: {got!r} is not {want!r}"
    return "ok"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("block", range(0, SEEDS, 10))
def test_random_programs(block: int) -> None:
    verdicts = {seed: verdict(load(seed)) for seed in range(block, min(block + 10, SEEDS))}
    wrong = {s: v for s, v in verdicts.items() if v != "ok" and not v.startswith("refused")}
    assert not wrong
    assert sum(v == "ok" for v in verdicts.values()) >= 1
