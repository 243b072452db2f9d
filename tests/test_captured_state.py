"""What a program reads from around it may change between calls, and is seen by the next call.

A table: what is read (``KINDS``), how it changes, through which entry point the function is called (``ENTRIES``), and
how far down it is read (``DEPTHS``).  CPython says what comes out.
"""

from __future__ import annotations

import itertools
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import custom_vjp, grad, hessian, interpret, jit, jvp, value_and_grad, vjp, vmap

HEAD = """\
import math, types
import numpy as np
from dataclasses import dataclass
from typing import NamedTuple

class Plain:
    scale = 1.0
    def __init__(self, w, inner=None):
        self.w, self.inner = w, inner
    @property
    def double(self):
        return 2.0 * self.w
    def times(self, x):
        return self.w * x * self.scale

class Derived(Plain):
    pass

class Slotted:
    __slots__ = ("w",)
    def __init__(self, w):
        self.w = w

@dataclass
class Data:
    w: float

@dataclass(frozen=True)
class Frozen:
    w: float

class Point(NamedTuple):
    w: float

def twice(x):
    return 2.0 * x

def thrice(x):
    return 3.0 * x

def adder(c):
    def add(x):
        return c * x
    def put(v):
        nonlocal c
        c = v
    return add, put

def defaults(x, c=2.0, *, k=3.0):
    return c * k * x

module = types.ModuleType("settings")
"""

# name → (what is set up, what is read, how it changes)
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "float": ("v = 1.0", "v", ("v = 5.0", "v = -0.0", "v = math.inf", "v = 5.0")),
    "int": ("v = 1", "v", ("v = 5", "v = 7", "v = 2 ** 40", "v = 5")),
    "int as a count": ("v = 1", "sum(1.0 for _ in range(v))", ("v = 5", "v = 0")),
    "int as a size": ("v = 1", "np.ones(v).sum()", ("v = 5", "v = 2")),
    "int as a place": ("v = 1", "(1.0, 2.0, 3.0)[v]", ("v = 2", "v = 0", "v = 1")),
    "bool": ("v = True", "(2.0 if v else 3.0)", ("v = False", "v = True", "v = False")),
    "condition": ("v = 1.0", "(2.0 if v > 3.0 else 3.0)", ("v = 5.0", "v = 2.0")),
    "str": ("v = 'a'", "(2.0 if v == 'a' else 3.0)", ("v = 'b'", "v = 'a'")),
    "None": ("v = None", "(2.0 if v is None else 3.0)", ("v = 1", "v = None")),
    "NumPy float": ("v = np.float64(1.0)", "v", ("v = np.float64(3.0)", "v = 2.0", "v = np.float32(1.5)")),
    "type": ("v = 1.0", "v", ("v = 2", "v = True", "v = np.float64(2.5)", "v = np.ones(()) * 3", "v = 4.0")),
    "tuple": ("v = (1.0, 2.0)", "v[1]", ("v = (1.0, 3.0)", "v = (1, 4)", "v = (1.0, 2.0, 3.0)", "v = (0.0, 1.0)")),
    "tuple, its length": ("v = (1.0, 2.0)", "len(v)", ("v = (1.0,)", "v = ()")),
    "named tuple": ("v = Point(1.0)", "v.w", ("v = Point(3.0)",)),
    "list": ("v = [1.0, 2.0]", "v[1]", ("v[1] = 4.0", "v.insert(0, 7.0)", "v = [3.0, 9.0]", "v[1] = 2")),
    "list, its length": ("v = [1.0]", "len(v)", ("v.append(2.0)", "v.clear()")),
    "list, summed": ("v = [1.0, 2.0]", "sum(v)", ("v.append(2.0)", "v[0] = 4.0", "v.pop()")),
    "long list": ("v = [1.0] * 300", "v[200]", ("v[200] = 3.0", "v = [4.0] * 300")),
    "dict": ("v = {'a': 1.0}", "v['a']", ("v['a'] = 3.0", "v['b'] = 1.0", "v = {'a': 4.0}")),
    "dict, get": ("v = {}", "v.get('a', 2.0)", ("v['a'] = 3.0", "del v['a']")),
    "dict in a list": ("v = [{'a': [1.0]}]", "v[0]['a'][0]", ("v[0]['a'][0] = 3.0", "v[0]['a'] = [4.0]")),
    "set": ("v = {1}", "(2.0 if 3 in v else 1.0)", ("v.add(3)", "v.remove(3)", "v = {3}")),
    "array element": ("v = np.array([1.0, 2.0])", "v[1]", ("v[1] = 4.0", "v = np.array([3.0, 9.0])", "v += 1.0")),
    "array shape": ("v = np.ones(3)", "v.sum()", ("v = np.ones(5)", "v = np.ones((2, 2))", "v = np.ones(1)")),
    "array dtype": ("v = np.ones(3)", "v.sum()", ("v = np.full(3, 2)", "v = np.full(3, 2.5, np.float32)")),
    "array in place": ("v = np.arange(4.0)", "v[0]", ("v.shape = (2, 2); v = v[1]", "v = v[::2]", "v = v[:1]")),
    "array without axes": ("v = np.array(2.0)", "v", ("v[()] = 3.0", "v = np.array(4.0)")),
    "function": ("v = twice", "v(1.0)", ("v = thrice", "v = math.cos", "v = lambda x: x * 7.0", "v = Plain(2.0).times")),
    "function, redefined": ("def v(x): return x", "v(1.0)", ("def v(x): return 4.0 * x", "def v(x): return 5.0")),
    "function, its code": ("def v(x): return x", "v(1.0)", ("v.__code__ = twice.__code__",)),
    "closure cell": ("v, put = adder(2.0)", "v(1.0)", ("put(3.0)", "put(4)", "put(np.float64(2.0))")),
    "default": ("v = defaults", "v(1.0)", ("v.__defaults__ = (4.0,)", "v.__kwdefaults__ = {'k': 5.0}",
                                           "v.__kwdefaults__['k'] = 6.0", "v.__defaults__ = (7,)")),
    "class": ("v = Plain", "v(2.0).times(1.0)", ("v = lambda w: Plain(3.0)", "v = Derived")),
    "class attribute": ("Plain.scale = 1.0", "Plain.scale", ("Plain.scale = 3.0", "Plain.scale = 4")),
    "class attribute by an object": ("Plain.scale = 1.0; v = Plain(2.0)", "v.scale",
                                     ("Plain.scale = 3.0", "v.scale = 4.0", "del v.scale")),
    "class attribute of a base": ("Plain.scale = 1.0; v = Derived(2.0)", "v.scale",
                                  ("Plain.scale = 3.0", "Derived.scale = 4.0", "del Derived.scale")),
    "method, redefined": ("v = Plain(2.0)", "v.times(1.0)",
                          ("Plain.times = lambda self, x: 5.0 * x", "v.times = lambda x: 6.0", "v = Plain(1.0)")),
    "attribute": ("v = Plain(2.0)", "v.w", ("v.w = 3.0", "v = Plain(4.0)", "v.w = 5", "v.w = np.float32(2.0)")),
    "attribute, by a method": ("v = Plain(2.0)", "v.times(1.0)", ("v.w = 3.0", "v = Plain(4.0)", "v = Derived(5.0)")),
    "attribute, by a property": ("v = Plain(2.0)", "v.double", ("v.w = 3.0", "v = Plain(4.0)")),
    "attribute, hasattr": ("v = Plain(2.0)", "(1.0 if hasattr(v, 'q') else 2.0)", ("v.q = 1", "del v.q")),
    "attribute, getattr": ("v = Plain(2.0)", "getattr(v, 'q', 1.5)", ("v.q = 1.0", "v.q = 2.0", "del v.q")),
    "attribute of an attribute": ("v = Plain(2.0, Plain(3.0))", "v.inner.w",
                                  ("v.inner.w = 4.0", "v.inner = Plain(5.0)", "v = Plain(1.0, Plain(6.0))")),
    "attribute: an array": ("v = Plain(np.ones(3))", "v.w.sum()", ("v.w[0] = 4.0", "v.w = np.ones(3) * 2",
                                                                   "v.w = np.ones(4)")),
    "attribute: a list of objects": ("v = Plain([Plain(1.0), Plain(2.0)])", "v.w[1].w",
                                     ("v.w[1].w = 4.0", "v.w[1] = Plain(5.0)", "v.w = [Plain(0.0), Plain(6.0)]")),
    "attribute: a function": ("v = Plain(twice)", "v.w(1.0)", ("v.w = thrice", "v.w = math.sqrt")),
    "slot": ("v = Slotted(2.0)", "v.w", ("v.w = 3.0", "v = Slotted(4.0)")),
    "dataclass": ("v = Data(2.0)", "v.w", ("v.w = 3.0", "v = Data(4.0)", "v.w = 5")),
    "frozen dataclass": ("v = Frozen(2.0)", "v.w", ("v = Frozen(4.0)",)),
    "module attribute": ("module.w = 2.0", "module.w", ("module.w = 3.0", "module.w = 4", "module.w = 5.0")),
    "function of a module": ("module.f = twice", "module.f(1.0)", ("module.f = thrice",)),
    "bound method": ("p = Plain(2.0); v = p.times", "v(1.0)", ("p.w = 3.0", "v = Plain(4.0).times")),
    "builtin": ("", "abs(-2.0)", ("abs = twice", "del abs")),
    "deletion": ("v = 2.0", "v", ("del v", "v = 3.0")),
    "deletion of an attribute": ("v = Plain(2.0)", "v.w", ("del v.w", "v.w = 3.0")),
}

DEPTHS = {
    "direct": "def f(x):\n    return {read} * x\n",
    "two calls down": "def a(x):\n    return {read} * x\ndef b(x):\n    y = a(x)\n    return y\n"
                      "def f(x):\n    return b(x)\n",
}

ENTRIES: dict[str, Callable[[Any], Callable[[float], Any]]] = {
    "jit": jit,
    "jit.grad": lambda f: jit(f, grad=True).grad,
    "jit.value_and_grad": lambda f: jit(f, grad=True).value_and_grad,
    "grad": lambda f: lambda x: grad(f)(x),
    "value_and_grad": lambda f: lambda x: value_and_grad(f)(x),
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,)),
    "vjp": lambda f: lambda x: vjp(f, x)[1](1.0),
    "hessian": lambda f: lambda x: hessian(lambda z: f(z) * f(z))(x),
    "vmap": lambda f: lambda x: vmap(f)(np.array([x, 1.0, x])),
    "in a jitted function": lambda f: _outer(jit(f)),
    "in a method": lambda f: _Holder(f).method,
    "in a method, jitted": lambda f: _Jitted(f).method,
    "in a rule": lambda f: _with_rule(f),
    "interpret": lambda f: lambda x: interpret(f, x),
}


def _outer(g: Any) -> Any:
    @jit
    def outer(x: float) -> Any:
        return g(x)
    return outer


class _Holder:
    def __init__(self, f: Any) -> None:
        self.f = f

    def at(self, x: float) -> Any:
        return self.f(x)

    def method(self, x: float) -> Any:
        return grad(self.at)(x)


class _Jitted:
    def __init__(self, f: Any) -> None:
        self.f = f

    @jit
    def method(self, x: float) -> Any:
        return self.f(x)


def _with_rule(f: Any) -> Any:
    @custom_vjp
    def ruled(x: float) -> float:
        return 2.0 * x
    ruled.defvjp(lambda x: (2.0 * x, x), lambda x, ct: (f(x) * ct,))
    return jit(grad(ruled))


def meant(entry: str, f: Any, x: float) -> Any:
    """What CPython says; the functions are linear."""
    value, slope = f(x), f(1.0)
    return {"jit.grad": slope, "jit.value_and_grad": (value, slope), "grad": slope, "value_and_grad": (value, slope),
            "jvp": (value, slope), "vjp": slope, "hessian": 2.0 * slope * slope, "in a method": slope,
            "vmap": [f(x), f(1.0), f(x)]}.get(entry, value)


_numbers = itertools.count()


def space_of(source: str) -> dict[str, Any]:
    """A module of this source."""
    name = f"<captured {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    module = sys.modules.setdefault("captured", types.ModuleType("captured"))        # where dataclasses look
    space: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, name, "exec"), space)
    return space


def change(space: dict[str, Any], statement: str) -> None:
    name = f"<captured {next(_numbers)}>"
    linecache.cache[name] = (len(statement), None, [statement], name)
    exec(compile(statement, name, "exec"), space)


def outcome(run: Callable[[], Any]) -> Any:
    try:
        found = run()
    except Exception as e:
        return type(e)
    parts = found if isinstance(found, (tuple, list)) else [found]
    return [np.asarray(p, dtype=float).tolist() for p in parts] if isinstance(found, tuple) else \
        np.asarray(parts if isinstance(found, list) else found, dtype=float).tolist()


def differences(kind: str, entry: str, depth: str) -> list[str]:
    """After which changes something else comes out than CPython says."""
    setup, read, changes = KINDS[kind]
    space = space_of(HEAD + setup + "\n" + DEPTHS[depth].format(read=read))
    f = space["f"]
    called = ENTRIES[entry](f)
    found = []
    for statement in ("", *changes):
        change(space, statement)
        for x in (2.0, 2.0, 2.0):
            expected, got = outcome(lambda: meant(entry, f, x)), outcome(lambda: called(x))
            if not (expected == got if isinstance(expected, type) or isinstance(got, type) else
                    np.allclose(expected, got, rtol=1e-12, equal_nan=True)):
                found.append(f"after {statement!r}: {got}, not {expected}")
                break
    return found


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_changes_is_seen(kind: str, depth: str) -> None:
    wrong = {entry: d for entry in ENTRIES if (d := differences(kind, entry, depth))}
    assert not wrong
