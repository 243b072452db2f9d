"""Random trees of values through one jitted identity: many signatures in any order, from calls of any shape."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitad import jit
from tests.calls.entries import same


class Pair(NamedTuple):
    first: Any
    second: Any


@jit
def identity(x, *rest, **named):
    return x, rest, named


def array(shape: tuple[int, ...], dtype: str, step: int) -> np.ndarray:
    whole = np.arange(int(np.prod(shape)) * step).astype(dtype)
    return whole[::step].reshape(shape) if step == 1 else np.lib.stride_tricks.as_strided(
        whole, shape, [s * step for s in np.empty(shape, dtype).strides])


scalars = st.one_of(
    st.floats(allow_nan=False), st.integers(-2**63, 2**63 - 1), st.booleans(), st.none(), st.sampled_from(["a", "bb"]),
    st.floats(width=32, allow_nan=False).map(np.float32), st.integers(-2**31, 2**31 - 1).map(np.int32),
)
arrays = st.builds(array, st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
                   st.sampled_from(["f8", "f4", "i8", "i4", "?"]), st.sampled_from([1, 1, 2]))
trees = st.recursive(scalars | arrays, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.builds(Pair, inner, inner),
    st.dictionaries(st.sampled_from("abc"), inner, max_size=2)), max_leaves=4)


@pytest.mark.slow
@settings(max_examples=40)
@given(trees, st.lists(trees, max_size=1), st.dictionaries(st.sampled_from(["k", "l"]), scalars, max_size=1))
def test_what_goes_in_comes_out(x: Any, rest: list[Any], named: dict[str, Any]) -> None:
    expected = x, tuple(rest), named
    for _ in range(2):
        made = identity(x, *rest, **named)
        assert same(made, expected), (made, expected)


@pytest.mark.slow
def test_entries_in_a_long_chain_take_turns() -> None:
    values = [1.0, 2, True, np.float32(3), np.ones(2), np.ones(2, "f4"), np.ones((2, 2)), (1.0, 2), [1.0, 2],
              Pair(1.0, 2), {"a": 1.0}, None, "text", np.ones(1), np.ones((2, 1)), ((), [], {})]
    for n in range(30):
        if n == 3:                               # all is compiled by then
            before = sys.getrefcount(None)
        for v in values:
            assert same(identity(v), (v, (), {}))
    assert abs(sys.getrefcount(None) - before) < 50
