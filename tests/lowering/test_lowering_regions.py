"""Regions of large functions as functions (``lowering/function/region_outlining.py``): the results are the same."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np
import pytest
from jitad.lowering.function import block_outlining, code_regions, region_outlining
from jitad.lowering.llvm.code import Code
from jitad.lowering.math.options import Options

from bench.compiler.compiling import loaded
from bench.compiler.program_kinds import KINDS
from jitad import jit, pipeline, value_and_grad
from jitad.passes.loops import unroll
from tests.ir import irgen
from tests.lowering.test_lowering_random import compiled


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for outlining in (block_outlining, region_outlining):
        monkeypatch.setattr(outlining, "SIZE", 12)
        monkeypatch.setattr(outlining, "LEAST", 12)
    monkeypatch.setattr(unroll, "MOST_OPS", 100)             # the loops of the programs stay loops


def count(text: str) -> int:
    return len(re.findall(r"^define .*\.region\.", text, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("arrays", [False, True], ids=["scalars", "arrays"])
@pytest.mark.parametrize("seed", range(300, 312))
@pytest.mark.usefixtures("small")
def test_random_programs(seed: int, arrays: bool) -> None:
    module, args = irgen.generate(seed, arrays=arrays), irgen.arguments(seed, arrays=arrays)
    want = irgen.outcome(module, args)
    pipeline.run(module, ["main"])
    assert irgen.same(want, compiled(module, "main", args, Options(level=0)), 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_programs_of_each_kind(kind: str, request: pytest.FixtureRequest) -> None:
    program, args = loaded(KINDS[kind](24, 2), np), (0.5, 0.25, np.linspace(0.1, 0.4, 5), 3)
    program.__globals__["np"] = np
    want = jit(program, grad=(0, 1, 2)).value_and_grad(*args)
    request.getfixturevalue("small")
    again = jit(program, grad=(0, 1, 2))
    value, slopes = again.value_and_grad(*args)
    assert value == pytest.approx(want[0], rel=1e-12)
    for slope, expected in zip(slopes, want[1], strict=True):
        np.testing.assert_allclose(slope, expected, rtol=1e-9)
    if kind in ("a long loop body", "loops", "ifs in a loop", "array statements", "call sites", "loops over an array"):
        assert count(jit(value_and_grad(program, (0, 1))).inspect("llvm", *args)) > 1


@pytest.mark.usefixtures("small")
def test_what_fails_in_a_region() -> None:
    def f(x: Any, n: int) -> Any:
        s = 1.0
        for i in range(n):
            s = s * x[i] + 0.5
        for i in range(2 * n):
            s = s * x[i] + 0.25
        for i in range(3 * n):
            s = s * x[i] + 0.125
        return s
    g, x = jit(f), np.linspace(0.5, 1.0, 7)
    assert g(x, 2) == pytest.approx(f(x, 2))
    assert count(g.inspect("llvm")) > 1
    for n in (3, 4, 8):
        with pytest.raises(IndexError):
            g(x, n)


@pytest.mark.parametrize("update, whole", [
    ("s + y", True), ("s * y", True), ("y - s * 0.5", False), ("np.sin(s) + y", False)])
@pytest.mark.usefixtures("small")
def test_loops_that_llvm_may_vectorise_stay_whole(update: str, whole: bool) -> None:
    scope = {"np": np}
    lines = ["y = x[i] * 2.0", *(f"y = y * y + {k}.5 * x[i]" for k in range(12)), f"s = {update}"]
    text = "\n        ".join(["def f(x):\n    s = 0.5\n    for i in range(len(x)):", *lines]) + "\n    return s\n"
    linecache.cache[f"<{update}>"] = (len(text), None, text.splitlines(True), f"<{update}>")
    exec(compile(text, f"<{update}>", "exec"), scope)
    f, x = scope["f"], np.linspace(0.1, 0.2, 9)
    g = jit(f)
    assert g(x) == pytest.approx(f(x), rel=1e-12)
    assert (count(g.inspect("llvm")) < 3) == whole           # the loop, and what comes before it


@pytest.mark.parametrize("edges, groups", [
    ({"a": "b", "b": "c", "c": ""}, ["a", "b", "c"]),
    ({"a": "bc", "b": "d", "c": "d", "d": "e", "e": ""}, ["acb", "d", "e"]),
    ({"a": "b", "b": "c", "c": "bd", "d": ""}, ["abc", "d"]),
    ({"a": "b", "b": "bc", "c": ""}, ["ab", "c"]),
    ({"a": "bd", "b": "c", "c": "d", "d": ""}, ["abc", "d"])])
def test_cuts(edges: dict[str, str], groups: list[str]) -> None:
    found = code_regions.cuts(edges, "a")
    assert [sorted(group) for group in found] == [sorted(group) for group in groups]
    assert [group[0] for group in found] == [group[0] for group in groups]


def test_phis_are_shared_out_to_groups_of_blocks() -> None:
    code = Code()
    ends = [code.label() for _ in range(4)]
    failure = code.label("fail")
    phi, zero = code.phi("i32", failure), code.phi("i64", failure)
    for k, label in enumerate(ends):
        code.add_incoming(phi, f"{k}", label)
        if k:
            code.add_incoming(zero, "0", label)
    a, b, c, d = ends
    taken = [[i.text() for i in group] for group in code.take_phis(failure, [[c, a], [], [d]])]
    assert taken == [[f"{phi} = phi i32 [ 0, %{a} ], [ 2, %{c} ]", f"{zero} = phi i64 [ 0, %{c} ]"], [],
                     [f"{phi} = phi i32 [ 3, %{d} ]", f"{zero} = phi i64 [ 0, %{d} ]"]]
    left = [i.text() for i in code.phi_lines(failure)]
    assert left == [f"{phi} = phi i32 [ 1, %{b} ]", f"{zero} = phi i64 [ 0, %{b} ]"]
