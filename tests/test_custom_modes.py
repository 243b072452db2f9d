"""A ``custom_vjp`` function that says how it goes forward too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import DifferentiationError, check_grads, custom_vjp, grad, hessian, interpret, jacfwd, jacrev, jvp, vmap

A, B = np.array([0.3, 0.7]), np.array([1.1, -0.4])


@custom_vjp
def wave(x: Any, y: Any) -> Any:
    return np.sin(x) * y


def there(x: Any, y: Any) -> Any:
    return wave(x, y), (x, y)


def back(kept: Any, ct: Any) -> Any:
    x, y = kept
    return ct * np.cos(x) * y, wave(x, ct)


wave.defvjp(there, back)


@wave.defjvp
def along(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return wave(x, y), np.cos(x) * y * dx + wave(x, dy)


def test_both_modes_to_the_third_order() -> None:
    check_grads(lambda a, b: wave(a, b) @ wave(b, a), (A, B), order=3, modes=("fwd", "rev"))


def test_modes_within_each_other_and_the_reference() -> None:
    def total(a: Any) -> Any:
        return wave(a, B).sum()
    np.testing.assert_allclose(hessian(total)(A), np.diag(-np.sin(A) * B), atol=1e-15)
    np.testing.assert_allclose(jacrev(jacfwd(total))(A), np.diag(-np.sin(A) * B), atol=1e-15)
    np.testing.assert_allclose(interpret(jacfwd(lambda a: wave(a, B)), A), np.diag(np.cos(A) * B), atol=1e-15)
    np.testing.assert_allclose(vmap(grad(lambda x: wave(x, 2.0)))(A), 2 * np.cos(A))


def test_forward_mode_of_some_arguments() -> None:
    out, dot = jvp(lambda y: wave(A, y), (B,), (np.ones(2),))
    np.testing.assert_allclose([out, dot], [np.sin(A) * B, np.sin(A)])


def test_the_rule_for_reverse_mode_comes_first() -> None:
    plain = custom_vjp(lambda x: 2 * x)
    with pytest.raises(DifferentiationError, match="no rule for reverse mode"):
        plain.defjvp(lambda primals, tangents: (primals, tangents))


def test_rules_may_be_replaced_one_by_one() -> None:
    twice = custom_vjp(lambda x: 2 * x)
    twice.defvjp(lambda x: (2 * x, None), lambda _, ct: (2 * ct,))
    with pytest.raises(DifferentiationError, match="defjvp"):
        jvp(twice, (1.0,), (1.0,))
    twice.defjvp(lambda primals, tangents: (twice(*primals), 2 * tangents[0]))
    assert jvp(twice, (1.0,), (1.0,)) == (2.0, 2.0)
    twice.defvjp(lambda x: (2 * x, None), lambda _, ct: (5 * ct,))
    assert (grad(twice)(1.0), jvp(twice, (1.0,), (1.0,))) == (5.0, (2.0, 2.0))
