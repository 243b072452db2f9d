"""Random programs (``fuzzing/``): earlier failures, some new programs, and the parts that find and reduce them.

``make fuzz`` runs more.
"""

from __future__ import annotations

import ast
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzzing import check, plain, slopes
from tests.fuzzing.check import Verdict, verdict
from tests.fuzzing.compare import agree, difference
from tests.fuzzing.comparing import Wrong
from tests.fuzzing.constructs.features import features
from tests.fuzzing.constructs.grammar import alternatives, holes, pieces
from tests.fuzzing.constructs.literals import shaken_constants
from tests.fuzzing.excused import differences_alone, hangs_on_constants
from tests.fuzzing.generate import generate
from tests.fuzzing.pool import Pool
from tests.fuzzing.shrink import shrink
from tests.fuzzing.values import fits

REGRESSIONS = sorted((Path(__file__).parent.parent / "regressions").glob("*.py"))
# Other ways of compiling that no regression test covers.
AS_EVER = frozenset(("checkpoint", "checkpoint=True", "checkpoint=2", "fastmath", "method", "static", "unchecked"))
ALL_FEATURES = ("match", "run-time functions", "unions", "trees", "vmap", "checkpoint", "custom_vjp", "custom_jvp")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda p: p.stem)
def test_once_wrong(path: Path) -> None:
    assert str(verdict(path.read_text(), check.ALL - AS_EVER)) == "ok"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_random_programs(block: int) -> None:
    known = features()
    for seed in range(10 * block, 10 * block + 10):
        program = generate(seed, known)
        found = verdict(program.source, check.sample(seed))
        assert found.what != "wrong", f"{found}\n{program.source}"


@pytest.mark.slow
def test_programs_are_python_and_follow_from_their_seed() -> None:
    for seed in range(150):
        source = generate(seed, ALL_FEATURES).source
        ast.parse(source)
        assert source == generate(seed, ALL_FEATURES).source


@pytest.mark.slow
def test_focus_raises_a_construct() -> None:
    def share(focus: tuple[str, ...]) -> int:
        return sum("recursion" in generate(s, (), focus, size=30).constructs for s in range(60))
    assert share(("recursion",)) > 2 * share(())


def test_templates() -> None:
    assert list(pieces("{{{f}: {?a|{@b}({num})}}}")) == [
        (False, "{"), (False, ""), (True, "f"), (False, ": "), (True, "?a|{@b}({num})"), (False, "}"), (False, "")]
    assert alternatives("a|{?b|c}|") == ["a", "{?b|c}", ""]
    assert list(holes("{?a|{@b}({num})} {.w=old f}")) == ["@b", "num", ".w=old f"]


def test_derivatives_by_differences() -> None:
    value, gradient = plain.value_and_grad(lambda x, y: x ** 3 * y)(2.0, 5.0)
    assert value == 40.0 and abs(gradient - 60.0) < 1e-9
    assert abs(plain.grad(plain.grad(lambda x: x ** 3))(2.0) - 12.0) < 1e-7
    for near, at in ((abs, 0.001), (abs, 0.0), (lambda z: min(z, 0.5), 0.5)):
        with pytest.raises(plain.Unsure):
            plain.grad(near)(at)
    with pytest.raises(plain.Unsure):                        # 0 · NaN, or 0 where nothing depends on it
        plain.vjp(lambda x: 0.5, 1.0)[1](math.nan)
    with pytest.raises(plain.Unsure):
        plain.linearize(lambda x: 0.5, 1.0)[1](math.inf)
    with pytest.raises(plain.Unsure):                        # raises nearby, not here
        plain.grad(lambda z: [z][int(z > 0.51)])(0.5)
    with pytest.raises(IndexError):
        plain.grad(lambda z: [z][int(z > 0.49)])(0.5)
    with plain.closer():
        assert abs(plain.grad(lambda z: [z][int(z > 0.51)])(0.5) - 1.0) < 1e-9


@pytest.mark.parametrize("jump, smooth", [(1e-2, False), (2e-4, False), (0.0, True)])
def test_differences_from_two_sides(jump: float, smooth: bool) -> None:
    """A small kink is detected, which slopes alone do not show if they change fast."""
    slope, found = difference(lambda x: math.sin(x) + 30.0 * x * x + jump * abs(x), (0.0,), (1.0,))
    assert found == smooth and abs(slope - 1.0) < 1e-6


def test_differences_change_what_a_function_captures_once() -> None:
    held, array, total = [1.0, {"k": 2.0}], np.ones(2), 0.0

    def product(z: float) -> float:
        nonlocal total
        total += z
        held[0] += 1.0
        held[1]["k"] *= 2.0
        array[:] += z
        return z * z * held[0] * array[0]
    for n, derivative in enumerate((
            lambda: plain.grad(product)(0.5), lambda: plain.jvp(product, (0.5,), (1.0,))[1],
            lambda: plain.vjp(product, 0.5)[1](1.0)[0], lambda: plain.linearize(product, 0.5)[1](1.0),
            lambda: plain.jacrev(product)(0.5), lambda: plain.hvp(product, (0.5,), (1.0,))), 1):
        before = array[0]
        slope = (n + 1) * (2 * 0.5 * (before + 0.5) + 0.25)
        found = derivative()
        assert abs(found - slope) < 1e-8 or n == 6
        assert (held, array.tolist(), total) == ([1.0 + n, {"k": 2.0 ** (n + 1)}], [1 + 0.5 * n] * 2, 0.5 * n)


@dataclass
class Named:
    name: str
    x: Any
    k: int = 2


def test_structure_of_a_gradient() -> None:
    x = Named("a", [1.0, (2, None)])
    assert fits(x, Named(None, [0.5, (None, None)], None))
    assert fits(x, Named(None, [0.5, None], None))
    for wrong in (Named("a", [0.5, None], None), Named(None, [0.5, (1, None)], None), Named(None, [None, None], None),
                  (None, [0.5, None], None), Named(None, [0.5, None], 0.0), None):
        assert not fits(x, wrong)


def test_outcomes_agree_in_type_and_message() -> None:
    assert agree(IndexError("index 3"), IndexError("index 3"), 0.0)
    assert not agree(IndexError("index 3"), IndexError("index 4"), 0.0)
    assert not agree(np.float32(0.5), 0.5, 0.0) and agree(np.float64(0.5), 0.5, 0.0)
    assert not agree(1, 1.0, 0.0) and not agree(True, 1, 0.0)


def test_compiled_in_other_ways() -> None:
    """As a method, with constants for arguments, with ``fastmath`` if last bits do not decide."""
    source = "import math\n\n\ndef main(x, n):\n    return x * math.sin(x) + n * 0.5{}\n\n\n"
    source, checks = source + "INPUTS = [(0.7, 1), (1.2, 0)]\n", {"method", "static", "fastmath"}
    counts = verdict(source.format(""), checks).counts
    assert counts["fastmath"] == 2 and counts["static"] >= 4 and counts["method's gradient"] == 6
    exact = verdict(source.format(" + (x * 0.1 + x * 0.2 > x * 0.3)"), checks)
    assert exact.what == "ok" and "fastmath" not in exact.counts


@pytest.mark.slow
def test_digits_of_differences_that_decide_are_not_held_against_compiled_code() -> None:
    """The derivative is 1; by differences it is a little less, and then `int` gives 0."""
    source = "from jitad import grad\n\n\ndef main(x):\n    return x * (1 + int(grad(lambda z: z + x)(x)))\n\n\n"
    found = verdict(source + "INPUTS = [(0.038,), (0.076,), (0.401,)]\n")
    assert found.what == "ok" and "value" not in found.counts


def test_digits_of_constants_that_decide_are_not_held_against_compiled_code() -> None:
    """A sum minus itself in another order is rounding error: no argument takes part in it."""
    source = """
import numpy as np

def main(x):
    a = np.cos(np.arange(300) * 0.3)
    return x + 1e14 * (a.sum() - sum(a))


INPUTS = [(0.5,)]
"""
    found = verdict(source, ())
    assert found.what == "ok" and found.counts["excused"] == 1 and found.detail.startswith("value: compiled ")
    assert shaken_constants("[0.5, 2, 0.5]", 1e-3) == "[{0}, 2, {0}]".format(0.5 * (1 + 1e-3 * (
        0.75 + 0.25 * math.cos(5001))))


def test_a_sum_that_is_rounded_half_way_is_not_held_against_compiled_code() -> None:
    source = "def main(x, n):\n    return x + round(n + 2.675, 2)\n\n\nINPUTS = [(0.5, 1)]\n"
    checker = check.Checker(check.load(source), frozenset(), source)
    checker.floats, checker.scalar = (0,), True
    for found, hangs in ((4.18, True), ((4.18, (1.0,)), True), (4.16, False)):
        checker.compared["value"] = found, 4.17
        assert hangs_on_constants(checker, checker.inputs[0], "value") == hangs
    assert verdict(source, {"fastmath"}).what == "ok"


def test_a_sum_that_is_compared_with_itself_is_not_held_against_compiled_code() -> None:
    source = """
import numpy as np

def main(p):
    return p[0] + np.array([1.0, 2.0])[2 if p[::-1].sum() < p[np.array([2, 0, 1])].sum() else 0]


INPUTS = [(0.3717 * k * np.array([1.0, -1.5, 1.3]),) for k in range(1, 20)]
"""
    assert verdict(source, {"unoptimised"}).what == "ok"


def test_angles_beyond_all_digits_are_not_held_against_compiled_code() -> None:
    """Differences of a large square do not see the sine beside it, so that CPython's value seems to be reliable."""
    source = """
import math
from jitad import linearize

def main(x):
    z = x * 0.0 + {}
    return x + linearize(lambda v: v * v + 1e19 * math.sin(v), z * z)[1](z)


INPUTS = [(0.5,)]
"""
    for angle, hangs in ((3.7e9, True), (3.7, False)):
        checker = check.Checker(check.load(source.format(angle)), frozenset(), source.format(angle))
        (at,), checker.floats, checker.scalar = checker.inputs, (0,), True
        assert hangs_on_constants(checker, at, "value") == hangs


class WrongNear(check.Checker):
    """A checker of a program that is wrong within this distance of one half."""

    width = 0.0

    def telling(self, at: tuple[Any, ...], want: Any, how: str) -> None:
        if abs(at[0] - 0.5) < self.width:
            raise Wrong("pullback against differences", "")


@pytest.mark.parametrize("width, alone", [(1e-6, True), (1e-2, False)])
def test_a_slope_that_is_wrong_in_one_place_is_not_held_against_compiled_code(width: float, alone: bool) -> None:
    source = "def main(x):\n    return x\n\n\nINPUTS = [(0.5,)]\n"
    checker = WrongNear(check.load(source), frozenset(), source)
    checker.width, checker.floats, checker.scalar = width, (0,), True
    assert differences_alone(checker, (0.5,), "pullback against differences") == alone
    assert not differences_alone(checker, (0.5,), "forward mode against reverse")


@pytest.mark.parametrize("found, alone", [(3.5, True), (3.51, False)])
def test_of_a_derivative_in_a_value_the_interpreter_decides(found: float, alone: bool) -> None:
    source = "from jitad import grad\n\ndef main(x):\n    return x + grad(lambda z: 3.0 * z)(x)\n\nINPUTS = [(0.5,)]\n"
    checker = check.Checker(check.load(source), frozenset(), source)
    checker.floats, checker.scalar, checker.compared["value"] = (0,), True, (found, 7.0)
    assert differences_alone(checker, (0.5,), "value") == alone


@pytest.mark.slow
def test_what_was_not_seen_to_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CPython, differences stop at a kink before the loop; and ``vmap`` runs parts that CPython has not run."""
    source = "from jitad import grad\n\n\ndef main(x):\n    s = {}\n    while x {} 0.0:\n        x = x * 1.0\n"
    source += "    return s + x * x\n\n\nINPUTS = [(0.5,), (-0.5,)]\n"
    monkeypatch.setattr(check, "FIRST", 1.0)
    assert str(verdict(source.format("grad(abs)(x - x)", ">"), ())) == "ok"
    monkeypatch.setattr(slopes, "LONGEST", 0.2)
    mapped = verdict(source.format("0.5", "<"), {"vmap"})
    assert str(mapped) == "ok" and mapped.counts["value"] == 1 and "vmap against a loop" not in mapped.counts


@pytest.mark.slow
def test_a_failure_shrinks() -> None:
    made = (generate(seed, (), ("for range",), size=40).source for seed in range(7, 99))
    source = next(s for s in made if "\n    return 0.5 * x" in s) + "\n\ndef unused(x):\n    return x\n"
    source = source.replace("    return 0.5 * x", "    if x < 3.0:\n        x = math.atan2(x, 4.0)\n    return 0.5 * x")

    def test(text: str) -> Verdict:
        return Verdict("wrong", "value") if "atan2" in text and "def main" in text else Verdict("ok")
    small = shrink(source, test, Verdict("wrong", "value"), 20.0)
    assert "atan2" in small and len(small.splitlines()) <= 6


def _odd_jobs(job: str) -> str:
    if job == "dies":
        os._exit(7)
    if job == "sleeps":
        time.sleep(60)
    return job.upper()


@pytest.mark.slow
def test_workers_that_die_or_find_no_end_are_replaced() -> None:
    with Pool(_odd_jobs, 1, time_limit=0.5) as pool:
        answers = dict(pool.run(["a", "dies", "b", "sleeps", "c"]))
    assert [answers[k] for k in "abc"] == ["A", "B", "C"]
    assert str(answers["dies"]) == "wrong: crash: exit status 7"
    assert answers["sleeps"].check == "no end"
