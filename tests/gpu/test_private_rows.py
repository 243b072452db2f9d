"""Arrays whose rows stay in shared memory, in hand-written programs of the loop level: which of them memory needs too.

An array that one nest alone accesses is private to it: the nest may keep its rows without storing them.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.host import launch_builder
from jitad.lowering.gpu.host.nests import private
from jitad.lowering.gpu.program import compile_loops
from jitad.lowering.math.options import Options
from jitad.lowering.python.exceptions import Failures

from jitad.gpu.simulated import SimulatedDriver
from jitad.ir.graph import Value
from jitad.loop_level.interp import LoopInterpreter
from jitad.loop_level.text import parse_module
from jitad.loop_level.verify import verify
from tests.gpu.programs import downloaded, uploaded

HEAD = """
  %c0 = const 0 : i64
  %c1 = const 1 : i64
  %zero = const 0.0 : f64
  %low = const -inf : f64
  %rows = dim {axis = 0} %x : i64
  %cols = dim {axis = 1} %x : i64
"""

ROW = """
      %m = for {independent = True, reductions = ("max",)} %j = %c0 to %cols step %c1 (%p = %low) {
        %v = load %x, %i, %j : f64
        %q = maximum {acc = True} %p, %v : f64
        yield %q
      }
      for {independent = True} %j.1 = %c0 to %cols step %c1 {
        %w = load %x, %i, %j.1 : f64
        %d = sub %w, %m : f64
        store %d, %y, %i, %j.1
        yield
      }
      %s = for {independent = True, reductions = ("sum",)} %j.2 = %c0 to %cols step %c1 (%t = %zero) {
        %u = load %y, %i, %j.2 : f64
        %a = add {acc = True} %t, %u : f64
        yield %a
      }
      store %s, %out, %i
"""

# Only the nest loads and stores %y.
INSIDE = f"""func @inside(%x: buffer f64[?, ?] alias 0) -> (buffer f64[?]) {{
^entry:{HEAD}
  %y = alloc {{kind = "arena"}} %rows, %cols : buffer f64[?, ?] alias 1
  %out = alloc {{kind = "result"}} %rows : buffer f64[?] alias 2
  for {{independent = True}} %i = %c0 to %rows step %c1 {{{ROW}
    yield
  }}
  return %out
}}"""

# No op outside of the nest has %y as an operand, but a jump passes it on.
PASSED_ON = f"""func @passed_on(%x: buffer f64[?, ?] alias 0) -> (buffer f64[?], f64) {{
^entry:{HEAD}
  %y = alloc {{kind = "arena"}} %rows, %cols : buffer f64[?, ?] alias 1
  %out = alloc {{kind = "result"}} %rows : buffer f64[?] alias 2
  for {{independent = True}} %i = %c0 to %rows step %c1 {{{ROW}
    yield
  }}
  %c = lt %c0, %cols : bool
  branch %c, ^after(%y), ^after(%y)

^after(%z: buffer f64[?, ?] alias 1):
  %last = sub %cols, %c1 : i64
  %e = load %z, %c1, %last : f64
  return %out, %e
}}"""

# The nest runs again, and loads what it has stored the time before.
RUNS_AGAIN = f"""func @runs_again(%x: buffer f64[?, ?] alias 0, %n: i64) -> (buffer f64[?]) {{
^entry:{HEAD}
  %y = alloc {{kind = "arena"}} %rows, %cols : buffer f64[?, ?] alias 1
  %out = alloc {{kind = "result"}} %rows : buffer f64[?] alias 2
  for %k = %c0 to %n step %c1 {{
    %first = eq %k, %c0 : bool
    for {{independent = True}} %i = %c0 to %rows step %c1 {{
      %m = for {{independent = True, reductions = ("max",)}} %j = %c0 to %cols step %c1 (%p = %low) {{
        %old = load %y, %i, %j : f64
        %new = load %x, %i, %j : f64
        %v = select %first, %new, %old : f64
        %q = maximum {{acc = True}} %p, %v : f64
        yield %q
      }}
      for {{independent = True}} %j.1 = %c0 to %cols step %c1 {{
        %old.1 = load %y, %i, %j.1 : f64
        %new.1 = load %x, %i, %j.1 : f64
        %w = select %first, %new.1, %old.1 : f64
        %d = sub %w, %m : f64
        %b = mul %d, %d : f64
        store %b, %y, %i, %j.1
        yield
      }}
      %s = for {{independent = True, reductions = ("sum",)}} %j.2 = %c0 to %cols step %c1 (%t = %zero) {{
        %u = load %y, %i, %j.2 : f64
        %a = add {{acc = True}} %t, %u : f64
        yield %a
      }}
      store %s, %out, %i
      yield
    }}
    yield
  }}
  return %out
}}"""


def run(text: str, *args: Any) -> None:
    """Asserts that a device gives what the interpreter of the loop level gives, and keeps rows in shared memory."""
    module = parse_module(text)
    verify(module)
    name, = module.functions
    want = LoopInterpreter(copy.deepcopy(module)).run(name, copy.deepcopy(args))
    program = compile_loops(module, name, Options(), Failures(module), instrumented=True)
    driver = SimulatedDriver(checked=True)
    got = [downloaded(driver, x) for x in program.run(driver, [uploaded(driver, x) for x in args])]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert "addrspace(3) @rows" in program.image.text, "nothing is kept in shared memory"


X = np.random.default_rng(3).normal(size=(3, 40))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the arrays that are found to be private."""
    names: list[str] = []

    def spy(*args: Any) -> set[Value]:
        made = private(*args)
        names.extend(v.hint for v in made)
        return made
    monkeypatch.setattr(launch_builder, "private", spy)
    return names


def test_an_array_of_one_nest(found: list[str]) -> None:
    run(INSIDE, X)
    assert found == ["y"]


def test_an_array_that_a_jump_passes_on(found: list[str]) -> None:
    run(PASSED_ON, X)
    assert found == []


def test_an_array_that_the_next_run_of_a_nest_loads(found: list[str]) -> None:
    run(RUNS_AGAIN, X, 3)
    assert found == ["y"]
