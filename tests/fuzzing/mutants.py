"""Mutants of the benchmark's ordinary programs, compiled with all passes and with none of the optional ones.

``python -m tests.fuzzing.mutants --seconds 60`` checks values and gradients, at sizes and memory layouts of arguments
that vary too; exit status 1 if two results differ.  A result that depends on the last bits of the arguments is excused,
and one that is not finite.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import linecache
import os
import random
import signal
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from bench import acting
from bench.case import Bench
from bench.ordinary import FIELDS
from bench.ordinary.program import Ordinary
from jitad import UnsupportedError, jit, pipeline
from tests.fuzzing.compare import agree, outcome, shaken
from tests.fuzzing.mutations import mutate

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65)
LIMIT = 20.0                    # seconds of one call
NONE = {"JITAD_WITHOUT": ",".join((*pipeline.OPTIONAL, pipeline.SEPARATE)), "JITAD_OPT": "0"}
Arguments = tuple[Any, ...]


@dataclass
class Mutant:
    name: str
    source: str
    function: Callable[..., Any]
    grad: tuple[int, ...]
    calls: list[Arguments]

    def compiled(self, fastmath: bool = False) -> Iterator[tuple[str, Callable[..., Any]]]:
        yield "value", jit(self.function, fastmath=fastmath)
        if self.grad:
            yield "gradient", jit(self.function, grad=self.grad, fastmath=fastmath).value_and_grad


@cache
def programs() -> list[Ordinary]:
    return [p for name in sorted(FIELDS) for p in acting.programs(f"bench.ordinary.{name}", Bench(None, None, True, 1))]


def mutant(seed: int) -> Mutant:
    """One to four mutations of a program, and two lists of arguments."""
    r = random.Random(seed)
    while True:
        p = r.choice(programs())
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(p.function))).body
        assert isinstance(tree, ast.FunctionDef)
        changed = [mutate(tree, r) for _ in range(r.choice((1, 1, 2, 2, 3, 4)))]
        source = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        name = f"<mutant {seed} of {p.name}>"
        try:
            code = compile(source, name, "exec")
        except SyntaxError:                                     # such as a jump that is in no loop any more
            continue
        if any(changed):
            break
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = dict(p.function.__globals__)
    exec(code, scope)
    first = tuple(p.args) if r.random() < 0.3 else resized(p.args, r)
    return Mutant(name, source, scope[p.name], tuple(p.grad), [first, resized(p.args, r)])


def resized(args: Sequence[Any], r: random.Random) -> Arguments:
    """Arguments with other sizes, the same for sizes that are the same, and some in another layout."""
    sizes: dict[int, int] = {}
    for a in args:
        for d in np.shape(a):
            sizes.setdefault(d, d if r.random() < 0.2 else min(d, r.choice(SIZES)))
    least = max(min(sizes.values(), default=1), 1)

    def other(a: Any) -> Any:
        if not isinstance(a, np.ndarray):
            return sizes.get(a, a) if type(a) is int else a
        a = a[tuple(slice(0, sizes[d]) for d in a.shape)].copy()
        if a.dtype.kind in "iu":                                # indices
            a %= least
        layout = r.random()
        if layout < 0.1:
            return np.asfortranarray(a)
        return np.repeat(a, 2, axis=-1)[..., ::2] if layout < 0.2 and a.ndim else a
    return tuple(map(other, args))


def check(m: Mutant, fastmath: bool = False) -> str:
    """What differs, ``""`` if nothing does."""
    with mock.patch.dict(os.environ, NONE):
        plain = [_results(f, m.calls) for _, f in m.compiled()]
    for (kind, f), want in zip(m.compiled(fastmath), plain):
        for args, x, y in zip(m.calls, _results(f, m.calls), want):
            narrow = any(getattr(a, "dtype", None) == np.float32 for a in args)
            if _late(x) or _late(y) or agree(x, y, 1e-3 if narrow else 1e-4 if fastmath else 1e-7):
                continue
            if isinstance(x, Exception) or isinstance(y, Exception) or _finite(y) and _steady(f, args, x):
                shapes = ", ".join(str(a.shape) if isinstance(a, np.ndarray) else repr(a) for a in args)
                return f"{kind} for {shapes}:\n{x!r}\nand without passes\n{y!r}"
    return ""


def _results(f: Callable[..., Any], calls: Sequence[Arguments]) -> list[Any]:
    return [_limited(f, args) for args in calls]


def _limited(f: Callable[..., Any], args: Arguments) -> Any:
    """The result of a call, and the arrays among its arguments after it; or the exception."""
    args = tuple(a.copy(order="K") if isinstance(a, np.ndarray) and a.flags.forc else
                 np.repeat(a, 2, axis=-1)[..., ::2] if isinstance(a, np.ndarray) else a for a in args)
    with _limit():
        result = outcome(f, *args)
    return result if isinstance(result, Exception) else (result, [a for a in args if isinstance(a, np.ndarray)])


@contextmanager
def _limit() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _late(x: Any) -> bool:
    return isinstance(x, TimeoutError)


def _finite(result: Any) -> bool:
    """False at a singular point, where passes may drop the product of zero and infinity."""
    return all(np.isfinite(np.asarray(v, float)).all() for v in _leaves(result))


def _steady(f: Callable[..., Any], args: Arguments, result: Any) -> bool:
    """True if the result is the same for arguments with other last bits."""
    return all(not isinstance(moved := _limited(f, shaken(args, by)), Exception) and agree(moved[0], result[0], 1e-6)
               for by in (1e-13, -1e-13))


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list)):
        for part in x:
            yield from _leaves(part)
    else:
        yield x


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing.mutants", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: from the clock")
    parser.add_argument("--fastmath", action="store_true")
    options, found, done, refused = parser.parse_args(), 0, 0, 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        m = mutant(options.seed + done)
        done += 1
        try:
            difference = check(m, options.fastmath)
        except UnsupportedError:                                # a mutant may use what changes in its loop
            refused += 1
            continue
        if difference:
            found += 1
            print(f"--- {m.name}: {difference}\n{m.source}", flush=True)
    print(f"seed {options.seed}: {done} mutants, {refused} refused, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
