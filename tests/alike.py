"""Shared code for tests of NumPy's functions: results and errors are compared with NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]


def assert_alike(found: Any, wanted: Any, **tolerance: float) -> None:
    """The same values, dtypes and shapes, part by part; without a tolerance to the last digit."""
    for k, (x, y) in enumerate(zip(leaves(found), leaves(wanted), strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), f"result {k}"
        np.testing.assert_allclose(x, y, err_msg=f"result {k}", **({"rtol": 0, "atol": 0} | tolerance))


def assert_raises_alike(wrong: Callable[..., Any], *args: Any) -> None:
    """The same exception with the same message as without the compiler."""
    with pytest.raises(Exception) as expected:
        wrong(*args)
    with pytest.raises(type(expected.value)) as found:
        jit(wrong)(*args)
    assert type(found.value) is type(expected.value)
    assert str(found.value) == str(expected.value)
