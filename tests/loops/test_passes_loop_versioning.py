"""Loops in two versions: the one without checks is taken only where it does what the loop does."""

from __future__ import annotations

import numpy as np
import pytest

from jitad import jit


def chosen_by_an_asserted_condition(a, wanted, n):
    s = 0.0
    for i in range(n):
        j = i - 10
        below = j < 0
        if wanted[i] > 0:
            assert below
        moved = j + 100
        k = moved if below else j
        assert k < 50
        s += a[i]
    return s


def test_a_choice_by_a_condition_that_a_check_wants() -> None:
    """The version in which ``below`` is asserted is one in which ``k`` is ``moved``."""
    a = np.ones(20)
    for wanted in (a, -a):
        with pytest.raises(AssertionError):
            jit(chosen_by_an_asserted_condition)(a, wanted, 5)


def rising(x, first, end, n):
    s = 0.0
    for k in range(first, end):
        s = 2.0 * s + x[k]
    return s


def falling(x, first, end, n):
    s = 0.0
    for k in range(end - first):
        s = 2.0 * s + x[first - k]
    return s


def shifted(x, first, end, n):
    y = np.zeros(n)
    for k in range(first, end):
        y[k - n] += x[k + n] * x[1 + k - first]
    return y[0] + 2.0 * y[-1] + 3.0 * y[n // 2]


def by_twos(x, first, end, n):
    s = 0.0
    for k in range(first, end):
        s = 2.0 * s + x[2 * k + n] + x[k - first]
    return s


def guarded(x, first, end, n):
    """Neighbours that are there: the conditions are those of the checks, in all iterations that read."""
    s = 0.0
    for k in range(first, end):
        right = x[2 * k + n] if 2 * k + n < len(x) else x[k]
        s = 2.0 * s + right
        if k - n >= 0:
            s += x[k - n]
    return s


def turning(x, first, end, n):
    """An index that grows by one but whose parts grow faster."""
    s = 0.0
    for k in range(first, end):
        at = 2 * k
        s = 2.0 * s + x[at] - x[at - k]
    return s


def clamped(x, first, end, n):
    """Windows that the ends of the array cut off, on one side of which the index may leave the array."""
    s = 0.0
    for k in range(first, end):
        s = 2.0 * s + x[min(k + n, 6)] - x[max(k - n, 0)] * x[2 - min(k, 1)] + x[max(3 - k, n) - 1]
    return s


FAR = 2**63 - 1
STARTS = (-9, -8, -7, -6, -3, -1, 0, 1, 2, 4, 6, 7, 8)
NEAR = [(a, a + length) for a in STARTS for length in (0, 1, 2, 3, 7, 8, 9)]
EXTREME = [(FAR - 2, FAR), (-FAR, -FAR + 2), (-FAR - 1, -FAR), (-FAR, 3 - FAR), (5, FAR), (FAR, 5)]


@pytest.mark.parametrize("program", [rising, falling, shifted, by_twos, guarded, turning, clamped])
@pytest.mark.parametrize("n", [1, 3, -2])
def test_first_and_last_index(program, n):
    """Indices that are in range, negative, beyond an end, or beyond it in the last iteration only."""
    x, compiled = np.arange(1.0, 8.0), jit(program)
    for first, end in NEAR:
        try:
            want = program(x, first, end, n)
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)) as got:
                compiled(x, first, end, n)
            assert str(got.value) == str(error)
        else:
            assert compiled(x, first, end, n) == want, (first, end)


@pytest.mark.parametrize("program", [rising, shifted, guarded, clamped])
@pytest.mark.parametrize(("first", "end"), EXTREME)
def test_indices_at_the_ends_of_int64(program, first, end):
    """Indices, or what they are computed from, may wrap around; a range that is empty raises nothing."""
    x, compiled = np.arange(1.0, 8.0), jit(program)
    if first > end:
        assert compiled(x, first, end, 3) == program(x, first, end, 3)
    else:
        with pytest.raises(IndexError):
            compiled(x, first, end, 3)


def test_a_short_loop_tests_each_bound_once():
    """Two reads at one index of a range: not below zero, below both lengths, and no wrap."""
    def row(x, y, first, end):
        s = 0.0
        for k in range(first, end):
            s += x[k] * y[k]
        return s
    f = jit(row)
    f(np.ones(3), np.ones(3), 1, 3)
    text = f.inspect("optimized")
    test = text[text.rindex("^preheader", 0, text.index("^fast, ^checked")):text.index("^fast, ^checked")]
    assert sum(test.count(f"= {name} ") for name in ("lt", "le", "gt", "ge")) == 4


def test_clamped_indices_are_tested_at_both_ends():
    def box(x, r):
        s = 0.0
        for k in range(len(x) // 2):                         # border_splitting takes indices that step by one
            s += np.tanh(x[min(2 * k + r, len(x) - 1)] - x[max(2 * k - r, 0)])
        return s
    f, x = jit(box), np.linspace(-1.0, 2.0, 50)
    for r in (0, 3, 60, -1):
        assert np.isclose(f(x, r), box(x, r))
    with pytest.raises(IndexError):
        f(x, -51)
    text = f.inspect("optimized")
    assert "^fast" in text
    assert text.count("check {") == 2


def of_groups(x, start, power):
    s = 0.0
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            s += np.log(x[k]) * x[k] ** power
    return s


@pytest.mark.slow
def test_groups_of_a_few_are_computed_one_by_one() -> None:
    """A vector takes as long for one number as for all of its own."""
    start = np.cumsum([0, 1, 0, 3, 4, 2, 9, 5, 17])
    x = np.linspace(0.5, 2.0, start[-1])
    f = jit(of_groups, grad=0)
    assert f(x, start, 1.5) == pytest.approx(of_groups(x, start, 1.5), rel=1e-13)
    assert f.grad(x, start, 1.5) == pytest.approx(x ** 0.5 * (1.5 * np.log(x) + 1.0), rel=1e-12)
    assert "const 4 : i64" in str(f.inspect("optimized", x, start, 1.5))
    with pytest.raises(IndexError, match=f"index {len(x)} is out of bounds"):
        f(x, start + 1, 1.5)


def turned(line, c, d):
    """The sides of the condition do not tell that ``x`` is a number."""
    s = 0.0
    for i in range(len(line)):
        x = c * i - d
        if x < 0.0 or x >= len(line) - 1:
            continue
        k = int(x)
        s += line[k] + (x - k) * (line[k + 1] - line[k])
    return s


@pytest.mark.parametrize("c, d", [(0.37, -1.0), (1e300, 0.0), (-1e18, 5.0), (2.0, 30.0), (0.5, np.inf), (np.nan, 0.0),
                                  (1.0, np.nan), (np.inf, np.inf), (0.0, np.nan)])
def test_floats_of_small_magnitudes_are_numbers(c: float, d: float) -> None:
    line = np.sin(np.arange(50.0))
    try:
        expected = turned(line, c, d)
    except ValueError as e:
        with pytest.raises(ValueError, match=str(e)):
            jit(turned)(line, c, d)
    else:
        assert jit(turned)(line, c, d) == pytest.approx(expected, rel=1e-13)
