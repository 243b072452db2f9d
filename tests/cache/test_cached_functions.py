"""``jit(cache=True)``: a process that finds code on disk runs the same program as one that compiles it.

Most tests load a module twice in this process, with new functions, classes and constants each time, as another process
has them.  Those at the end start processes.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from jitad.lowering.function import region_outlining
from jitad.lowering.jit import cpu

import jitad
from jitad import disk_store
from jitad.caching import format as entry_format


class Project:
    """Modules in a folder, which are loaded anew each time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(textwrap.dedent(text))

    def load(self, name: str = "main") -> ModuleType:
        linecache.checkcache()
        for known in ("main", "other", "deeper"):
            sys.modules.pop(known, None)
        spec = importlib.util.spec_from_file_location(name, self.folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("JITAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Project(tmp_path)


def counts(f: Any) -> tuple[int, int]:
    """How often a function was compiled, and how often loaded."""
    return f.stats["compilations"], f.stats["cached"]


def loads(project: Project, call: str) -> Any:
    """The result of a call in a module that compiles, after the same in one that loads; they must be equal."""
    made: list[Any] = []
    for expected in ((1, 0), (0, 1)):
        module = project.load()
        made.append(eval(call, vars(module)))
        assert counts(module.f) == expected, module.f.stats
        again = eval(call, vars(module))                        # by the entry point
        np.testing.assert_equal(again, made[-1])
    np.testing.assert_equal(made[0], made[1])
    return made[1]


# --- what is kept ---------------------------------------------------------------------------------

PROGRAMS = {
    "captured": ("""
        SCALE, SHIFT, TABLE = 2, 0.5, np.arange(3.0)
        def helper(x): return x * SCALE
        @jit(cache=True)
        def f(x): return helper(x).sum() + SHIFT + TABLE @ x
        """, "f(np.ones(3))", 2.0 * 3 + 0.5 + 3),
    "closure": ("""
        def make(n, weights):
            def inner(x): return (x * weights).sum() ** n
            return jit(inner, cache=True)
        f = make(3, np.arange(3.0))
        """, "f(np.ones(3))", 27.0),
    "object": ("""
        class Model:
            def __init__(self): self.slope, self.table, self.power = 2.0, np.arange(3.0), 2
            @jit(cache=True)
            def value(self, x): return (self.slope * self.table * x).sum() ** self.power
        f, model = Model.value, Model()
        """, "model.value(np.ones(3))", 36.0),
    "structures": ("""
        @dataclass
        class Point:
            x: float
            y: float
        class Pair(NamedTuple):
            a: np.ndarray
            b: dict
        @jit(cache=True)
        def f(p, q, *, flag=True): return {"sum": Point(p.x + q.a.sum(), p.y), "b": [q.b["k"], (flag, None, "text")]}
        """, "f(Point(1.0, 2.0), Pair(np.ones(2), {'k': 3}), flag=False)['b']", [3, (False, None, "text")]),
    "tree": ("""
        @dataclass
        class Node:
            value: float
            left: "Node | None" = None
            right: "Node | None" = None
        def total(t): return 0.0 if t is None else np.sin(t.value) + total(t.left) * total(t.right)
        f = jit(total, cache=True, grad=True).grad
        """, "f(Node(0.5, Node(1.0), Node(2.0))).left.value", np.sin(2.0) * np.cos(1.0)),
    "long list": ("""
        @jit(cache=True)
        def f(xs):
            s = 0.0
            for x in xs: s += x * x
            return s
        """, "f([0.5] * 40)", 10.0),
    "static": ("""
        @jit(cache=True, static=("n", "g"))
        def f(x, n, g): return g(x) * n
        def double(x): return x + x
        """, "f(1.5, 3, double)", 9.0),
    "lambda argument": ("""
        @jit(cache=True)
        def f(g, x): return g(x) + 1.0
        quadruple = lambda x: x * 4.0
        """, "f(quadruple, 2.0)", 9.0),
    "own rule": ("""
        @jitad.custom_vjp
        def square(x): return x * x
        square.defvjp(lambda x: (x * x, x), lambda x, ct: (7.0 * x * ct,))
        def g(x): return square(x)
        f = jit(g, cache=True, grad=True).grad
        """, "f(2.0)", 14.0),
    "products": ("""
        @jit(cache=True)
        def f(a, b): return np.linalg.solve(a @ b, b.sum(axis=0)) @ np.tanh(a)[0]
        """, "f(np.eye(9) * 3.0, np.eye(9) + 1.0)", None),
    "compiled function": ("""
        @jit
        def fib(n: int) -> float: return 1.0 * n if n < 2 else fib(n - 1) + fib(n - 2) * 1.0
        @jit(cache=True)
        def f(n): return fib(n) + 0.5
        """, "f(10)", 55.5),
    "many threads": ("""
        @jit(cache=True, parallel=True)
        def f(x):
            out = np.zeros(len(x))
            for i in range(len(x)): out[i] = np.sin(x[i]) ** 2
            return out.sum()
        """, "f(np.zeros(100_000))", 0.0),
    "flags": ("""
        @jit(cache=True, fastmath=True, boundscheck=False)
        def f(x):
            s = np.float32(0)
            for i in range(len(x)): s += x[i]
            return s
        """, "f(np.ones(10, np.float32))", np.float32(10.0)),
    "decorated": ("""
        def twice(g):
            @functools.wraps(g)
            def wrapped(*args, **kwargs): return 2.0 * g(*args, **kwargs)
            return wrapped
        @jit(cache=True)
        @twice
        def f(x, by=functools.partial(max, 3.0)): return by(x)
        """, "f(1.0)", 6.0),
}
HEAD = """
import functools
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np
import jitad
from jitad import jit
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_kept(project: Project, name: str) -> None:
    text, call, expected = PROGRAMS[name]
    project.write(main=HEAD + textwrap.dedent(text))
    result = loads(project, call)
    if expected is not None:
        np.testing.assert_allclose(result, expected) if isinstance(expected, float) else \
            np.testing.assert_equal(result, expected)


def test_regions_of_long_functions(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code without loops is in an object file of its own, and calls functions of the other one."""
    monkeypatch.setattr(region_outlining, "SIZE", 12)
    monkeypatch.setattr(region_outlining, "LEAST", 12)
    generated = mock.Mock(wraps=cpu.straight_level)
    monkeypatch.setattr(cpu, "straight_level", generated)
    lines = [f"x, y = sin(y) * x, {k}.5 * deep(x, n)" for k in range(6)]
    project.write(main="\n".join([
        "from math import sin", "from jitad import jit, value_and_grad",
        "def deep(x, n): return x * x if n < 1 else sin(deep(x * 0.5, n - 1)) + deep(x * 0.25, n - 1)",
        "def plain(x, y, n):", *(f"    {line}" for line in lines), "    return x + y",
        "f = jit(value_and_grad(plain, (0, 1)), cache=True)"]))
    value, (slope, _) = loads(project, "f(0.5, 0.25, 3)")
    assert generated.called
    plain = project.load().plain
    assert value == pytest.approx(plain(0.5, 0.25, 3), rel=1e-12)
    assert slope == pytest.approx((plain(0.5 + 1e-6, 0.25, 3) - plain(0.5 - 1e-6, 0.25, 3)) / 2e-6, rel=1e-6)


def test_transforms(project: Project) -> None:
    """Derivatives of a cached function are kept too."""
    project.write(main=HEAD + textwrap.dedent("""
        @jit(cache=True)
        def g(x, y): return np.sin(x) * y
        derivatives = [jitad.grad(g), jitad.grad(g, argnums=1), jitad.hessian(g), jitad.vmap(g, in_axes=(0, None)),
                       jitad.grad(jitad.grad(g))]
        calls = [(0.5, 2.0)] * 3 + [(np.ones(3), 2.0), (0.5, 2.0)]
        """))
    results = []
    for loaded in (0, 1):
        module = project.load()
        results.append([d(*c) for d, c in zip(module.derivatives, module.calls)])
        assert [counts(d) for d in module.derivatives] == [(1 - loaded, loaded)] * 5
    np.testing.assert_equal(*results)
    np.testing.assert_allclose(results[1][0], 2 * np.cos(0.5))
    np.testing.assert_allclose(results[1][4], -2 * np.sin(0.5))


def test_errors(project: Project) -> None:
    """Exceptions of loaded code have the type, the text and the line that they had."""
    project.write(main=HEAD + textwrap.dedent("""
        class Refused(Exception): pass
        @jit(cache=True)
        def f(x, i):
            if i < 0:
                raise Refused(f"not {i}")
            return x[i]
        """))
    told = []
    for expected in ((1, 0), (0, 1)):
        module = project.load()
        lines = []
        for i, kind in ((-1, module.Refused), (7, IndexError)):
            with pytest.raises(kind) as caught:
                module.f(np.ones(3), i)
            lines.append((str(caught.value), caught.traceback[-1].lineno, str(caught.traceback[-1].path)))
        assert counts(module.f) == expected
        told.append(lines)
    assert told[0] == told[1] and told[0][0][0] == "not -1" and told[0][0][2].endswith("main.py")


def test_captured_state_may_change(project: Project) -> None:
    """Guards and captured values are those of the process that loads."""
    project.write(main=HEAD + textwrap.dedent("""
        POWER, FACTOR, TABLE, OPTIONS = 2, 3.0, np.ones(3), {"k": 1.0}
        def helper(x): return x ** POWER
        @jit(cache=True)
        def f(x): return FACTOR * helper(x) * TABLE.sum() * OPTIONS["k"]
        """))
    project.load().f(2.0)
    m = project.load()
    assert m.f(2.0) == 36.0 and counts(m.f) == (0, 1)
    m.FACTOR, m.TABLE = 1.0, np.full(3, 2.0)
    m.OPTIONS["k"] = 0.5
    assert m.f(2.0) == 12.0 and counts(m.f) == (0, 1)
    m.POWER = 3
    assert m.f(2.0) == 24.0 and counts(m.f) == (1, 1)
    m.helper = lambda x: x
    assert m.f(2.0) == 6.0 and counts(m.f) == (2, 1)


def test_several_states(project: Project) -> None:
    """Scripts that set a constant to values of their own do not replace each other's code."""
    project.write(main=HEAD + "K = 1\nf = jit(lambda x: x * K if K > 1 else x, cache=True)\n")
    for expected in ((1, 0), (0, 1)):
        for k in (1, 2, 3):
            module = project.load()
            module.K = k
            assert module.f(2.0) == 2.0 * k and counts(module.f) == expected


# --- what is compiled anew ------------------------------------------------------------------------

MAIN = """
    import numpy as np
    from jitad import jit
    import other
    from other import Model, helper, twice
    def scaled(x, by=2.0): return x * by
    @jit(cache=True)
    def f(x): return other.outer(scaled(x)) + Model(x).value() + helper(twice, x)
    """
OTHER = """
    from dataclasses import dataclass
    import deeper
    CONSTANT = 10
    @dataclass
    class Model:
        x: float
        def value(self): return self.x + Model.shift()
        @staticmethod
        def shift(): return 0.25
    def outer(x): return deeper.inner(x) + CONSTANT
    def twice(x): return x + x
    def helper(g, x): return g(x)
    """
DEEPER = "def inner(x): return x - 1.0\n"
EDITS = {
    "callee two files away": ("deeper", "x - 1.0", "x - 2.0"),
    "global of another file": ("other", "CONSTANT = 10", "CONSTANT = 11"),
    "method": ("other", "self.x + Model.shift()", "self.x - Model.shift()"),
    "static method": ("other", "return 0.25", "return 0.5"),
    "field": ("other", "x: float\n", "x: float\n        y: float = 1.0\n"),
    "function passed on": ("other", "return x + x", "return x * x"),
    "default argument": ("main", "by=2.0", "by=3.0"),
    "callee in the same file": ("main", "x * by", "x / by"),
    "itself": ("main", "+ helper(twice, x)", "- helper(twice, x)"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edits(project: Project, name: str) -> None:
    files = {"main": MAIN, "other": OTHER, "deeper": DEEPER}
    project.write(**files)
    assert project.load().f(1.5) == loaded(project).f.py_func(1.5)
    file, old, new = EDITS[name]
    assert old in files[file]
    project.write(**{file: files[file].replace(old, new)})
    edited = project.load()
    assert edited.f(1.5) == edited.f.py_func(1.5) and counts(edited.f) == (1, 0)
    loaded(project)


def loaded(project: Project) -> ModuleType:
    """The module, which must find the code for a number on disk."""
    module = project.load()
    assert module.f(1.5) == module.f.py_func(1.5) and counts(module.f) == (0, 1)
    return module


def test_options_and_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(main=HEAD + "def g(x): return x[0] * 2.0\nf = jit(g, cache=True)\n"
                              "fast = jit(g, cache=True, fastmath=True)\n")
    module = project.load()
    assert module.f(np.ones(3)) == module.fast(np.ones(3)) == 2.0
    assert counts(module.fast) == (1, 0)
    assert module.f(np.ones(3, np.float32)) == 2.0 and counts(module.f) == (2, 0)
    monkeypatch.setenv("JITAD_WITHOUT", "licm")
    module = project.load()
    assert module.f(np.ones(3)) == 2.0 and counts(module.f) == (1, 0)


def test_recompile(project: Project) -> None:
    project.write(main=HEAD + "f = jit(lambda x: x * 2.0, cache=True)\n")
    assert project.load().f(1.0) == 2.0
    module = project.load()
    module.f.recompile()
    assert module.f(1.0) == 2.0 and counts(module.f) == (1, 0)


def test_what_cannot_be_kept(project: Project) -> None:
    """It is compiled in each process, and ``stats`` tells why."""
    project.write(main=HEAD + textwrap.dedent("""
        @functools.lru_cache
        def known(n): return n + 1.0
        @jit(cache=True)
        def f(x): return x * known(2)
        """))
    for _ in range(2):
        module = project.load()
        assert module.f(2.0) == 6.0 and counts(module.f) == (1, 0)
        assert "_lru_cache_wrapper" in module.f.stats["uncached"][0]


# --- files ----------------------------------------------------------------------------------------

def test_entries_that_are_spoilt(project: Project) -> None:
    project.write(main=HEAD + "f = jit(lambda x: x * 2.0, cache=True)\n")
    for spoil in (lambda data: data[:-10], lambda data: data[:200] + b"xxx" + data[203:], lambda data: b""):
        assert project.load().f(1.0) == 2.0
        file, = Path(disk_store.directory() or "").glob("*.jitad")
        file.write_bytes(spoil(file.read_bytes()))
        module = project.load()
        assert module.f(1.0) == 2.0 and counts(module.f) == (1, 0)
        assert project.load().f(1.0) == 2.0


def test_entries_of_another_format(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete files with contents that are none of this version are ignored and replaced."""
    project.write(main=HEAD + "f = jit(lambda x: x * 2.0, cache=True)\n")
    stored: list[str] = []
    put = disk_store.put
    monkeypatch.setattr(disk_store, "put", lambda key, data: stored.append(key) or put(key, data))
    assert project.load().f(1.0) == 2.0
    for data in (b"", b"no pickle", entry_format.pickle.dumps((1, 2, 3))):
        put(stored[-1], data)
        module = project.load()
        assert module.f(1.0) == 2.0 and counts(module.f) == (1, 0)
        loaded(project)


def test_folders_that_others_can_write(project: Project) -> None:
    project.write(main=HEAD + "f = jit(lambda x: x * 2.0, cache=True)\n")
    assert project.load().f(1.0) == 2.0
    os.chmod(disk_store.directory() or "", 0o777)
    module = project.load()
    assert module.f(1.0) == 2.0 and counts(module.f) == (1, 0) and module.f.stats["uncached"]


# --- processes ------------------------------------------------------------------------------------

SCRIPT = HEAD + """
import json, os, sys, time
from other import helper
@jit(grad=True, cache=True)
def f(w, x): return helper(np.tanh(w[0] * x + w[1])).sum()
w, x = np.array([0.5, 0.25]), np.linspace(0, 1, 100)
before = set(sys.modules)
start = time.process_time()
result = f.value_and_grad(w, x)
took = time.process_time() - start
print(json.dumps({"value": result[0], "gradient": result[1].tolist(), "loaded": f.value_and_grad.stats["cached"],
                  "compiler": "llvmlite" in sys.modules or "jitad.compiler" in sys.modules, "seconds": took,
                  "imported": sorted(set(sys.modules) - before)}))
"""


def start(project: Project, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, project.folder / "main.py"], stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"PYTHONPATH": str(project.folder)} | environment)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.slow
def test_new_processes(project: Project) -> None:
    """Eight processes that start at once do each other no harm; the next one neither traces nor compiles."""
    project.write(main=SCRIPT, other="def helper(x): return x * x\n")
    first = [finish(process) for process in [start(project) for _ in range(8)]]
    assert len({(r["value"], *r["gradient"]) for r in first}) == 1
    second = finish(start(project))
    assert second["loaded"] == 1 and not second["compiler"] and second["imported"] == []
    assert (second["value"], second["gradient"]) == (first[0]["value"], first[0]["gradient"])
    assert second["seconds"] < 0.05                             # 3 ms on an idle machine, a second to compile
    project.write(other="def helper(x): return x * x * x\n")
    third = finish(start(project))
    assert third["loaded"] == 0 and third["value"] != second["value"]


@pytest.mark.slow
def test_switched_on_from_outside(project: Project) -> None:
    project.write(main=SCRIPT.replace(", cache=True", ""), other="def helper(x): return x * x\n")
    assert finish(start(project, JITAD_CACHE="1"))["loaded"] == 0
    assert finish(start(project, JITAD_CACHE="1"))["loaded"] == 1
    assert finish(start(project))["loaded"] == 0


def test_no_home(project: Project) -> None:
    """Without a folder everything works, and nothing is kept."""
    project.write(main=HEAD + "f = jit(lambda x: x * 2.0, cache=True)\n")
    os.environ["JITAD_CACHE_DIR"] = ""                          # which the fixture restores
    for _ in range(2):
        module = project.load()
        assert module.f(1.0) == 2.0 and counts(module.f) == (1, 0)
    assert jitad.__version__


def test_other_shapes_of_calls(project: Project) -> None:
    """A call of a new shape runs the loaded code, in the end by an entry point of its own; arguments are not kept."""
    project.write(main=HEAD + textwrap.dedent("""
        TABLE = np.arange(3.0)
        @jit(cache=True)
        def f(x, y=1.0): return (x * TABLE).sum() * y
        """))
    assert project.load().f(np.ones(3), 2.0) == 6.0
    f, x = project.load().f, np.ones(3)
    count = sys.getrefcount(x)
    assert f(x, 2.0) == 6.0
    assert [f(x, y=k) for k in np.arange(20.0).tolist()] == [3.0 * k for k in range(20)]
    assert f(y=2.0, x=np.ones((6, 1))[::2, 0]) == 6.0 and f(x, 5.0) == 15.0
    assert counts(f) == (0, 1) and len(f.signatures) == 1 and sys.getrefcount(x) == count


def test_looking_inside(project: Project) -> None:
    """What a loaded program is made of is made again when it is asked for."""
    project.write(main=HEAD + "f = jit(lambda x: (x * 2.0).sum(), cache=True)\n")
    assert project.load().f(np.ones(3)) == 6.0
    f = project.load().f
    assert f(np.ones(3)) == 6.0 and f.signatures == ["(f64[?])"] and counts(f) == (0, 1)
    assert "mul" in f.inspect("ir") and f.inspect("llvm") and jitad.interpret(f, np.ones(3)) == 6.0
    assert counts(f) == (0, 1)
