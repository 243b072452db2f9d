"""``python -m jitad``, ``interpret``, ``spec``, and the public names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitad
from jitad import JitadError, jit
from jitad.calling.handle import handle_of
from jitad.command_line.functions import specs
from jitad.command_line.main import main
from tests.calls.entries import same

PROGRAM = '''
import numpy as np
from jitad import jit

@jit
def loss(w, x):
    total = 0.0
    for i in range(len(x)):
        total += np.sin(w * x[i])
    return total

def plain(x):
    return x * x

def bad(x):
    return np.fft.fft(x)

def annotated(x: "f64[n]"):
    return x
'''


@pytest.fixture
def program(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "a_program", raising=False)
    return "a_program"


def test_inspect_prints_a_stage(program: str, capsys: Any) -> None:
    for stage in ("ir", "cps", "optimized", "asm"):
        assert main(["inspect", f"{program}:loss", "--signature", "f64, f64[:]", "--stage", stage]) == 0
    assert main(["inspect", f"{program}:loss", "--grad", "w", "--signature", "f64, f64[:]", "--stage", "adjoint"]) == 0
    assert "func @loss" in capsys.readouterr().out


def test_run_and_verify(program: str, capsys: Any) -> None:
    assert main(["run", f"{program}:plain", "3.0"]) == 0
    assert main(["run", "--grad", "0", f"{program}:plain", "3.0"]) == 0
    assert main(["run", f"{program}:loss", "0.0", "[1.0, 2.0]"]) == 0
    assert capsys.readouterr().out.split() == ["9.0", "6.0", "0.0"]
    assert main(["verify", f"{program}:loss", "--signature", "f64, f64[:]"]) == 0
    assert "well formed" in capsys.readouterr().out


def test_errors_of_the_command_line(program: str, capsys: Any) -> None:
    assert main(["run", f"{program}:bad", "1.0"]) == 1
    assert main(["run", program, "1.0"]) == 1
    assert "UnsupportedError" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "what"), [
    ("inspect a_program:loss", "loss(w, x) takes arguments"),
    ("verify a_program:loss --signature f65", "types look like f64"),
    ("run a_program:loss one two", "'one' is no Python literal"),
    ("run a_program:nothing", "there is no a_program:nothing"),
    ("run no_program:loss", "there is no no_program:loss"),
    ("build a_program:np -o f.so", "a_program:np is no function"),
    ("build a_program:annotated -o f.so", "an annotation of annotated cannot be read: name 'f64' is not defined"),
])
def test_wrong_command_lines(program: str, capsys: Any, arguments: str, what: str) -> None:
    assert main(arguments.split()) == 1
    assert what in capsys.readouterr().err


def test_a_stand_in_is_not_called_with() -> None:
    with pytest.raises(TypeError, match="stands for an argument of inspect"):
        jit(lambda x: x)(jitad.spec("f64"))


def test_signatures_as_text() -> None:
    found = specs("f64[:, :], i64,f32[3, :]")
    assert [str(s) for s in found] == ["spec('f64[?, ?]')", "spec('i64')", "spec('f32[3, ?]')"]
    with pytest.raises(ValueError):
        jitad.spec("f63")


def test_interpret_agrees_with_compiled_code() -> None:
    def f(x, a):
        total = x
        for i in range(len(a)):
            if a[i] > 0:
                total = total * a[i]
        return total, (a * 2.0, len(a)), None
    args = 1.5, np.array([1.0, -2.0, 3.0])
    assert same(jitad.interpret(f, *args), jit(f)(*args))
    assert same(jitad.interpret(jit(f), *args), jit(f)(*args))
    assert same(jitad.interpret(jitad.grad(lambda x: x ** 3), 2.0), 12.0)
    assert same(jitad.interpret(lambda x: x + x, np.float32(2)), np.float32(4))


def test_public_names() -> None:
    for name in jitad.__all__:
        assert getattr(jitad, name) is not None
    assert set(jitad.__all__) <= set(dir(jitad))
    with pytest.raises(AttributeError):
        jitad.nonsense  # noqa: B018
    assert issubclass(jitad.UnsupportedError, JitadError)


def test_without_arguments_it_is_the_last_call_that_is_shown() -> None:
    f = jit(lambda x, y=1.0: x + y)
    calls = ((1.0,), "f64)"), ((np.ones(3),), "f64[?])"), ((1, 2), "i64)"), ((np.float32(1),), "f32)")
    for _ in range(3):
        for args, kind in calls:
            f(*args)
            assert f.inspect().splitlines()[0].endswith(f"-> ({kind} {{"), args
    for _ in range(10):
        f(1.0, y=2)
        f(x=1, y=2)
    assert f.inspect().splitlines()[0].endswith("-> (i64) {")
    f(1.0)
    f.recompile()
    assert f.inspect().splitlines()[0].endswith("-> (f64) {")


def test_switches_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def square(x: float) -> float:
        return x * x

    for told, on in (("1", True), ("yes", True), ("On", True), ("0", False), ("off", False), ("", False)):
        monkeypatch.setenv("JITAD_CACHE", told)
        assert ("cache" in handle_of(jit(square)).options) == on, told
    monkeypatch.setenv("JITAD_CACHE", "offf")
    with pytest.raises(ValueError, match=r"JITAD_CACHE=offf: expected 1 \(on, true, yes\) or 0"):
        jit(square)


def test_a_wrong_switch_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    third = jit(lambda a: a[2])
    assert third(np.ones(3)) == 1.0
    monkeypatch.setenv("JITAD_DEBUG", "2")
    with pytest.raises(IndexError):
        third(np.ones(2))
    with pytest.raises(ValueError, match="JITAD_DEBUG=2"):
        jit(lambda x: x * x)(3.0)
