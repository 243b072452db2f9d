"""Look-up of a function's source: files that change, code without columns, warnings as errors."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jitad import UnsupportedError, grad, jit


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Writes a module, and loads it for the first time or again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loaded: dict[str, ModuleType] = {}
    times = iter(range(1, 100))

    def write(name: str, text: str, load: bool = True) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        os.utime(path, (0, 10**9 + 10 * next(times)))
        if load:
            importlib.invalidate_caches()
            known = loaded.get(name)
            loaded[name] = importlib.import_module(name) if known is None else importlib.reload(known)
        return loaded[name]
    yield write                                                      # type: ignore[misc]
    for name in loaded:
        del sys.modules[name]


ADDS = "from jitad import jit\n\n@jit\ndef f(x):\n    return x + {}\n\ndef g(x):\n    return x - {}\n"


def test_a_module_that_is_loaded_anew(module: Callable[..., ModuleType]) -> None:
    m = module("source_reloaded", ADDS.format(1.0, 1.0))
    assert m.f(1.0) == 2.0
    before = jit(m.g)
    assert module("source_reloaded", ADDS.format(100.0, 100.0)).f(1.0) == 101.0
    assert jit(m.g)(1.0) == -99.0
    assert before(1.0) == 0.0                                        # Python still has it from the first file
    assert module("source_reloaded", ADDS.format(1.0, 7.0)).f(1.0) == 2.0 and jit(m.g)(1.0) == -6.0


def test_a_file_that_changes_while_its_functions_run(module: Callable[..., ModuleType]) -> None:
    m = module("source_changed", ADDS.format(1.0, 1.0) + "\nh = jit(lambda x: x * 2.0)\n")
    assert m.f(1.0) == 2.0
    module("source_changed", "\n" + ADDS.format(100.0, 100.0), load=False)
    assert jit(m.g)(1.0) == 0.0 and m.h(1.0) == 2.0
    module("source_changed", ADDS.format("(", "("), load=False)
    assert jit(m.g)(2.0) == 1.0


def test_a_file_that_changed_before_its_first_function_ran(module: Callable[..., ModuleType], tmp_path: Path) -> None:
    m = module("source_edited", ADDS.format(1.0, 1.0))
    os.utime(tmp_path / "source_edited.py")
    assert m.f(1.0) == 2.0                                           # written now, but still what Python compiled
    scope: dict[str, Any] = {}                                       # ``compile`` takes ``annotations`` from here
    exec(compile((tmp_path / "source_edited.py").read_text(), str(tmp_path / "source_edited.py"), "exec"), scope)
    assert scope["f"](1.0) == 2.0
    m = module("source_rewritten", ADDS.format(1.0, 1.0))
    (tmp_path / "source_rewritten.py").write_text(ADDS.format(100.0, 100.0))
    with pytest.raises(UnsupportedError, match="has the file changed"):
        m.f(1.0)


def test_equal_code_in_two_files(module: Callable[..., ModuleType]) -> None:
    text = "from jitad import jit\n\n@jit\ndef f(x):\n    return [x][3]\n"
    for name in ("source_first", "source_second"):
        with pytest.raises(IndexError) as caught:
            module(name, text).f(1.0)
        assert f"{name}.py" in str([str(entry.path) for entry in caught.traceback]) + str(
            getattr(caught.value, "__notes__", ""))


def test_escapes_that_python_warns_of(module: Callable[..., ModuleType]) -> None:
    text = 'def f(x):\n    "a \\d"\n    return x + 1.0\n\ng = lambda x: x + (1.0 if "\\w" else 2.0)\n'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = module("source_escapes", text)
        warnings.simplefilter("error")
        assert jit(m.f)(1.0) == jit(m.g)(1.0) == 2.0


NO_COLUMNS = """
from jitad import UnsupportedError, grad, jit
f = jit(lambda x: x * 3.0)
several = [jit(lambda x: x + 1.0), jit(lambda x: x + 2.0), jit(lambda y: y + 3.0)]
same = [jit(lambda x: x + 4.0), jit(lambda x: x + 4.0)]

def inner(x):
    return (lambda y: (lambda z: z + y)(x))(x)

print(f(1.0), several[2](1.0), [g(1.0) for g in same], jit(inner)(2.0))
for g in several[:2]:
    try:
        print(g(1.0))
    except UnsupportedError as e:
        print(e.message)
"""


@pytest.mark.slow
def test_code_without_columns(tmp_path: Path) -> None:
    """The first of several lambdas on a line was used for each."""
    (tmp_path / "program.py").write_text(NO_COLUMNS)
    done = subprocess.run([sys.executable, "-X", "no_debug_ranges", str(tmp_path / "program.py")], text=True,
                          capture_output=True, timeout=120)
    refused = "there are several lambdas on this line, and Python does not keep which is which"
    assert done.stdout.splitlines() == ["3.0 4.0 [5.0, 5.0] 4.0", refused, refused], done.stderr


class __Model:
    """A class with private names, which are mangled without the leading underscores of the class."""

    def __init__(self) -> None:
        self.__w, self.__name__ = 3.0, "model"

    def __scaled(self, __x: float) -> float:
        return self.__w * __x

    def value(self, __x: float) -> float:
        def __twice(__f: Callable[[float], float]) -> float:
            return __f(__x) + self.__scaled(__x)
        match (1.0, 2.0):
            case (__first, *__others):
                return __twice(lambda __y: __y * self.__w) + __first + len(__others)

    def inner(self) -> Callable[[float], float]:
        return lambda x: x * self.__w


def test_private_names() -> None:
    model = globals()["__Model"]()
    assert jit(model.value)(2.0) == model.value(2.0) == 14.0
    assert jit(model.inner())(2.0) == 6.0
    assert grad(model.value)(1.0) == 6.0

    def __outside(__x: float) -> float:
        return __x + 1.0
    assert jit(__outside)(1.0) == 2.0


def test_no_source_at_all() -> None:
    scope: dict[str, object] = {}
    exec("def f(x):\n    return x", scope)
    with pytest.raises(UnsupportedError, match="f has no source to read"):
        jit(scope["f"])(1.0)                                         # type: ignore[arg-type]
