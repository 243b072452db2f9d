"""A ``custom_vjp`` function that also defines forward mode."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from jitad import (
    DifferentiationError,
    check_grads,
    custom_vjp,
    grad,
    hessian,
    interpret,
    jacfwd,
    jacrev,
    jit,
    jvp,
    vmap,
)

pytestmark = pytest.mark.any_level

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


@pytest.mark.slow
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


# --- rules of functions that call each other --------------------------------------------------------

@functools.partial(custom_vjp, nondiff_argnums=0)
def product(transposed: bool, a: Any, x: Any) -> Any:
    return (a.T if transposed else a) @ x


def product_forward(transposed: bool, a: Any, x: Any) -> Any:
    return product(transposed, a, x), (a, x)


def product_backward(transposed: bool, kept: Any, ct: Any) -> Any:
    a, x = kept
    return np.outer(x, ct) if transposed else np.outer(ct, x), product(not transposed, a, ct)


product.defvjp(product_forward, product_backward)


def test_a_rule_may_call_its_function_with_another_flag() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(grad(lambda x: product(False, a, x).sum())(A), a.sum(0))
    np.testing.assert_allclose(jacrev(grad(lambda x: x @ product(True, a, x) * x[0]))(A),
                               hessian(lambda x: x @ (a.T @ x) * x[0])(A))


@pytest.mark.slow
def test_arrays_of_literal_sizes_meet_others_in_rules() -> None:
    """``sorted_twice`` drops the size that ``np.array([x, 1.0])`` has."""
    def of_literals(x: float) -> Any:
        return sorted_twice(np.array([[x, 1.0], [2.0, x * x]]), np.array([x, 1.0])).sum()
    check_grads(of_literals, (0.3,), modes=("rev",), order=2)


@custom_vjp
def sorted_twice(a: Any, b: Any) -> Any:
    return a @ b[np.argsort(b)]


@custom_vjp
def sorted_back(a: Any, b: Any, order: Any) -> Any:
    return (a.T @ b)[np.argsort(order)]


sorted_twice.defvjp(lambda a, b: (sorted_twice(a, b), (a, b)), lambda kept, ct: (
    np.outer(ct, np.sort(kept[1])), sorted_back(kept[0], ct, np.argsort(kept[1]))))
sorted_back.defvjp(lambda a, b, order: (sorted_back(a, b, order), (a, b, order)), lambda kept, ct: (
    np.outer(kept[1], ct[kept[2]]), sorted_with(kept[0], ct, kept[2]), None))


@custom_vjp
def sorted_with(a: Any, b: Any, order: Any) -> Any:
    return a @ b[order]


sorted_with.defvjp(lambda a, b, order: (sorted_with(a, b, order), (a, b, order)), lambda kept, ct: (
    np.outer(ct, kept[1][kept[2]]), sorted_back(kept[0], ct, kept[2]), None))


def test_a_flag_that_changes_in_a_recursion() -> None:
    def parity(n: int, x: float, odd: bool) -> float:
        if n == 0:
            return x * x if odd else x
        return parity(n - 1, x * 1.5, not odd)
    for n in (0, 1, 2, 5):
        assert jit(parity)(n, 2.0, False) == parity(n, 2.0, False)
        assert grad(lambda x, n=n: parity(n, x, True))(2.0) == pytest.approx(
            1.5 ** n if n % 2 else 2 * 1.5 ** (2 * n) * 2.0)
