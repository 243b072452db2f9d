"""Shape of the code for arrays: vector calls, one loop for a fused chain, no copies, no run-time overlap tests."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jitad.lowering.jit.cpu import target
from jitad.lowering.jit.invoke import Compiled
from jitad.lowering.math import libmvec
from jitad.lowering.math.options import Options
from jitad.lowering.planning.array_plan import plan

from jitad import jit
from jitad.ir.types import I64
from tests.kernels.lowering_arrays import SHAPES, Build, check, module_of, sample

X, Y, M = sample((50,)), sample((50,), seed=1), sample((6, 7))


def compiled(build: Build, *args) -> Compiled:
    return Compiled(module_of(build, args), "f")


def stored(build: Build, *args) -> list[str]:
    """The ops whose array results are stored, in order."""
    func = module_of(build, args).functions["f"]
    lazy = plan(func).lazy
    return [op.name for op in func.all_ops() for v in op.results if v not in lazy and getattr(v.type, "dims", ())]


def vector_calls(c: Compiled) -> set[str]:
    """The vector functions that loops call, including jitad's own, which are inlined."""
    own = re.findall(r"@jitad\.vector\.(\w+)\.\d", c.native.llvm)
    return set(re.findall(r"_ZGV[bde]N\d+v+_\w+", c.native.asm)) | {f"_{name}" for name in own}


needs_mvec = pytest.mark.skipif(libmvec.library() is None, reason="this C library has no libmvec")


@needs_mvec
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_chain_of_transcendentals_vectorises(dtype):
    x = sample((50,), dtype)
    c = compiled(lambda b, x: [b.log(b.add(b.exp(b.sin(x)), b.tanh(x)))], x)
    names = {n.split("_")[-1] for n in vector_calls(c)}
    suffix = "f" if dtype == "float32" else ""
    assert {f + suffix for f in ("exp", "sin", "tanh", "log")} <= names
    assert re.search(r"[yz]mm" if target().vector_bits > 128 else r"\b(add|mul|div)p[sd]\b", c.native.asm)


@needs_mvec
@pytest.mark.parametrize("fastmath", [False, True])
def test_a_logarithm_of_what_is_not_negative_is_a_vector_call_too(fastmath):
    module = module_of(lambda b, x: [b.log(b.add(b.mul(x, x), 1.0)), b.log2(b.exp(x)), b.log10(b.abs(x))], [X])
    c = Compiled(module, "f", Options(fastmath=fastmath))
    assert {n.split("_")[-1] for n in vector_calls(c)} == {"log", "log2", "log10", "exp"}
    np.testing.assert_allclose(c(X)[0], np.log(X * X + 1), rtol=1e-14)


@needs_mvec
def test_a_fused_reduction_vectorises():
    c = compiled(lambda b, x, y: [b.sum(b.exp(b.mul(x, y)), axes=(0,))], X, Y)
    assert any(n.endswith("_exp") for n in vector_calls(c))


@pytest.mark.skipif(not libmvec.masks_tails(target().features), reason="this machine has no AVX-512")
def test_the_rest_of_a_transcendental_loop_runs_under_a_mask():
    c = compiled(lambda b, x: [b.tanh(x)], X)
    assert vector_calls(c) and not re.search(r"\btanh\b", c.native.asm)
    for n in range(20):
        np.testing.assert_allclose(c(X[:n])[0], np.tanh(X[:n]), rtol=2e-15)


@pytest.mark.skipif(not libmvec.masks_tails(target().features), reason="this machine has no AVX-512")
def test_so_does_the_rest_of_a_program_s_own_loop():
    def build(b, x):
        n, start = b.dim(x, axis=0), b.copy(x)
        loop, done = (b.func.new_block(name) for name in ("loop", "done"))
        i, y = loop.add_param(I64), loop.add_param(start.type)
        result = done.add_param(start.type)
        b.jump(loop, [b.const(0), start])
        b.at(loop)
        following = b.add(i, 1)
        nexts = b.set(y, b.tanh(b.get(x, i)), i)
        b.branch(b.lt(following, n), loop, [following, nexts], done, [nexts])
        b.at(done)
        return [result]
    c = compiled(build, X)
    assert vector_calls(c) and not re.search(r"\btanh\b", c.native.asm)
    for n in range(1, 20):
        np.testing.assert_allclose(c(X[:n])[0], np.tanh(X[:n]), rtol=2e-15)


@pytest.mark.skipif(not libmvec.masks_tails(target().features), reason="this machine has no AVX-512")
def test_functions_of_functions_take_two_vectors_at_a_time():
    """The processor does not look far enough ahead to begin with the next vector."""
    def build(b, x, depth):
        for _ in range(depth):
            x = b.add(b.sin(x), 0.5)
        return [x]

    def expected(x, depth):
        for _ in range(depth):
            x = np.sin(x) + 0.5
        return x
    for depth, calls in ((2, 2), (6, 12)):
        c = compiled(lambda b, x, depth=depth: build(b, x, depth), X)
        assert len(re.findall(r"call\w*\s+_ZGV[bde]N\d+v_sin", c.native.asm)) == calls
        for n in range(40):
            np.testing.assert_allclose(c(X[:n])[0], expected(X[:n], depth), rtol=1e-14)


def test_chains_are_one_loop():
    def build(b, x, y):
        z = b.add(b.mul(x, y), b.exp(x))
        return [b.sub(z, b.mul(z, z))]
    assert stored(build, X, Y) == ["sub"]


def test_a_value_with_two_sites_is_stored_once():
    def build(b, x):
        z = b.exp(x)
        return [b.sum(z, axes=(0,)), b.mul(z, 2.0)]
    assert stored(build, X) == ["exp", "mul"]


def test_a_cheap_value_is_computed_twice_instead():
    def build(b, x):
        z = b.neg(x)
        return [b.sum(z, axes=(0,)), b.prod(z, axes=(0,))]
    assert stored(build, X) == []


def test_reductions_need_no_temporary():
    def build(b, x, y):
        return [b.sum(b.mul(x, y), axes=(0,)), b.max(b.abs(b.sub(x, y)), axes=(0,))]
    assert stored(build, X, Y) == []


def test_costly_rows_are_not_recomputed_along_columns():
    def build(b, m, v):
        return [b.mul(m, b.exp(v))]
    assert stored(build, M, sample((7,))) == ["exp", "mul"]


def test_a_column_is_computed_within_its_row():
    def build(b, m):
        n = b.dims(m)[0]
        top = b.max(m, axes=(1,))
        return [b.exp(b.sub(m, b.reshape(b.add(top, 1.0), n, 1)))]
    assert stored(build, M) == ["max", "exp"]


def test_views_of_stored_arrays_are_not_copied():
    def build(b, m, i):
        n, k = b.dims(m)
        row = b.get(m, i)
        columns = b.slice(m, 0, n, 1, 1, 2, 1)
        return [b.sum(row, axes=(0,)), b.sum(b.transpose(m, perm=(1, 0)), axes=(0, 1)), b.sum(columns, axes=(0, 1))]
    assert stored(build, M, 2) == []


def test_dead_operands_give_their_buffer():
    def build(b, x, y):
        a = b.set(b.copy(x), 1.0, 0)
        return [b.add(b.mul(a, y), 1.0)]
    func = module_of(build, [X, Y]).functions["f"]
    assert len(plan(func).reuse) == 1


@needs_mvec
def test_what_takes_over_a_buffer_vectorises():
    """The strides of reads and writes are the same, and LLVM must be able to prove it."""
    c = compiled(lambda b, x, y, v: [b.tanh(b.add(b.matmul(x, y), v))], M, M.T.copy(), sample((6,)))
    assert any(n.endswith("_tanh") for n in vector_calls(c))


def test_live_and_borrowed_operands_do_not():
    def build(b, x, y):
        a = b.set(b.copy(x), 1.0, 0)
        return [b.add(a, y), a]
    assert not plan(module_of(build, [X, Y]).functions["f"]).reuse
    assert not plan(module_of(lambda b, x, y: [b.add(x, y)], [X, Y]).functions["f"]).reuse


def test_accumulators_carried_by_a_loop_are_updated_in_place():
    def build(b, x, n):
        func, start = b.func, b.fill(0.0, *b.dims(x))
        head, body, done = (func.new_block(name) for name in ("head", "body", "done"))
        i, total = head.add_param(I64), head.add_param(start.type)
        b.jump(head, [b.const(0), start])
        b.at(head)
        b.branch(b.lt(i, n), body, [], done, [])
        b.at(body)
        b.jump(head, [b.add(i, 1), b.add(total, b.mul(x, b.cast(i, dtype=x.type.dtype)))])
        b.at(done)
        return [total]
    module = module_of(build, [X, 3])
    assert len(plan(module.functions["f"]).reuse) == 1
    np.testing.assert_allclose(Compiled(module, "f")(X, 4)[0], 6 * X)


def test_different_arrays_are_known_not_to_overlap():
    c = compiled(lambda b, x, y: [b.add(b.mul(x, y), 1.0)], X, Y)
    assert "memcheck" not in c.native.llvm and "!alias.scope" in c.native.llvm


def test_functions_of_rows_do_not_take_over_what_they_read():
    """The masked end of a row would delay the next row; an array without rows has only one end."""
    def reused(build, *args) -> int:
        return len(plan(module_of(build, args, own=(0,)).functions["f"]).reuse)
    row = sample((7,))
    assert reused(lambda b, m, r: [b.tanh(b.add(m, r))], M, row) == 0
    assert reused(lambda b, m, r: [b.mul(m, r)], M, row) == 1
    assert reused(lambda b, m, n: [b.tanh(b.add(m, n))], M, M) == 1
    check(lambda b, m, r: [b.tanh(b.add(m, r))], M, row, own=(0,))


def test_a_comparison_with_a_row_is_made_where_it_is_read():
    def build(b, m, r):
        column = b.broadcast_to(b.reshape(r, 6, 1), *b.dims(m))
        marks = b.select(b.eq(m, column), 1.0, 0.0)
        return [b.sum(marks, axes=(1,)), b.sub(marks, m)]
    assert stored(build, M, M[:, 2].copy()) == ["sum", "sub"]
    check(build, M, M[:, 2].copy())


def groups(build: Build, *args) -> list[list[str]]:
    """The ops that share a loop, by name."""
    found = plan(module_of(build, args).functions["f"]).groups
    return [[op.name for op in g] for g in {id(g): g for g in found.values()}.values()]


def test_results_of_the_same_sizes_share_a_loop():
    def build(b, x, y):
        z = b.exp(b.mul(x, y))
        w = b.sin(b.add(z, y))
        return [z, w, b.mul(z, w)]
    assert groups(build, X, Y) == [["exp", "sin", "mul"]]
    check(build, X, Y)


def test_a_reader_between_them_ends_a_group():
    def build(b, x, y):
        z = b.exp(x)
        n = b.get(b.cumsum(z, axis=0), 2)
        return [z, b.mul(z, b.div(z, n))]
    assert groups(build, X, Y) == [["exp"], ["mul"]]
    check(build, X, Y)


def test_a_reduction_joins_and_what_needs_its_result_does_not():
    def build(b, x, y):
        z = b.exp(x)
        n = b.sum(z, axes=(0,))
        return [z, b.mul(z, b.div(z, n))]
    assert groups(build, X, Y) == [["exp", "sum"], ["mul"]]
    check(build, X, Y)


def test_sizes_that_a_reduction_gives_end_its_group():
    def build(b, x):
        n = b.cast(b.sum(b.mul(x, 0.0), axes=(0,)), dtype=I64)
        longer = b.fill(1.5, b.add(n, 3))
        return [b.exp(x), longer, b.sin(x)]
    check(build, X)


def passing(build: Build, *args) -> list[str]:
    """The ops that are computed in a group and not stored."""
    return sorted(v.op.name for v in plan(module_of(build, args).functions["f"]).passing)


def test_what_only_a_group_reads_is_not_stored():
    def build(b, x, y):
        e, s = b.exp(x), b.sin(y)
        value = b.mul(e, s)
        return [b.sum(value, axes=(0,)), b.add(value, e), b.max(b.sub(s, e), axes=(0,))]
    assert passing(build, X, Y) == ["exp", "mul", "sin"]
    check(build, X, Y)


def test_what_something_else_reads_too_is_stored():
    def build(b, x, y):
        e = b.exp(x)
        return [b.sum(b.mul(e, y), axes=(0,)), b.sum(b.mul(e, e), axes=(0,)), b.cumsum(e, axis=0)]
    assert passing(build, X, Y) == []
    check(build, X, Y)


def test_one_that_takes_over_the_buffer_of_what_is_not_stored_looks_further_back():
    def build(b, x, y):
        old = b.set(b.copy(x), 0.5, 0)
        e = b.exp(b.mul(old, y))                     # reuses old, and the product reuses e
        return [b.mul(e, b.sin(e)), b.sum(e, axes=(0,))]
    func = module_of(build, [X, Y]).functions["f"]
    found = plan(func)
    assert [v.op.name for v in found.passing] == ["exp"] and [v.op.name for v in found.reuse.values()] == ["set"]
    check(build, X, Y)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_reductions_and_arrays_in_one_loop(shape, dtype):
    def build(b, x, y):
        axes = tuple(range(len(shape)))
        e = b.exp(b.mul(x, y))
        back = b.transpose(b.sin(x), perm=axes[::-1])
        product = b.mul(e, b.transpose(back, perm=axes[::-1]))
        return [product, b.sum(product, axes=axes), b.any(b.gt(e, x), axes=axes), b.prod(b.add(e, y), axes=axes),
                b.sub(e, y), b.cos(back)]
    check(build, sample(shape, dtype), sample(shape, dtype, 1), rtol=1e-11)


def test_an_update_of_what_a_member_reads_ends_a_group():
    def build(b, x, y):
        a = b.set(b.copy(x), 0.5, 0)
        z = b.exp(a)
        w = b.set(a, 1.5, 1)
        return [z, b.sin(b.mul(z, y)), w]
    assert groups(build, X, Y) == [["exp"], ["sin"]]
    check(build, X, Y)


def test_a_member_that_is_read_out_of_place_ends_a_group():
    def build(b, x):
        n = b.dims(x)[0]
        z = b.exp(x)
        back = b.slice(z, b.sub(n, 1), n, -1)
        return [z, b.sin(b.mul(z, back))]
    assert groups(build, X) == [["exp"], ["sin"]]
    check(build, X)


def test_a_member_may_take_over_what_another_one_reads_in_place():
    def build(b, x, y):
        a = b.set(b.copy(x), 0.5, 0)
        z = b.exp(b.mul(a, y))
        return [z, b.sin(b.add(a, z))]
    func = module_of(build, [X, Y]).functions["f"]
    assert len(plan(func).reuse) == 1
    assert groups(build, X, Y) == [["exp", "sin"]]
    check(build, X, Y)


def test_sizes_that_only_happen_to_be_equal_do_not_group():
    assert groups(lambda b, x, y: [b.exp(x), b.exp(y)], X, Y) == [["exp"], ["exp"]]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_part_of_a_matrix_is_transposed(dtype: str) -> None:
    """By the routine, which takes rows of constant number too; squares are cut off and columns are missing."""
    def even(a, r, c, n):
        return a[r:r + 16, c:c + n].T.copy()

    def odd(a, r, c, n):
        return a[r:r + 19, c:c + n].T.copy()

    def narrow(a, r, c, n):
        return a[r:r + n, c:c + 7].T.copy()

    a = np.arange(44 * 40).reshape(44, 40).astype(dtype)
    for f in (even, odd, narrow):
        compiled_once = jit(f)
        for at in ((0, 0, 1), (0, 0, 5), (3, 2, 17), (5, 1, 0), (4, 0, 24), (2, 33, 1), (0, 0, 2), (1, 1, 3)):
            got, want = compiled_once(a, *at), f(a, *at)
            assert got.dtype == want.dtype and np.array_equal(got, want), (f.__name__, at)
        assert ("jitad.turn" in compiled_once.inspect("llvm", a, 0, 0, 1)) == (dtype != "int64")
