"""``python -m jitad run|verify|opt|inspect file.ir``: the textual IR as input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitad import jit, spec
from jitad.command_line.main import main
from jitad.command_line.single_passes import PASSES_BY_NAME

PROGRAM = """\
exception 0 ValueError "negative" at "model.py":7
func @square(%x: f64) -> (f64) {
^entry:
  %y = mul %x, %x
  return %y
}
func @total(%a: f64[?], %k: f64) -> (f64) {
^entry:
  %zero = const 0
  %one = const 1
  %nil = const 0.0
  %n = dim {axis = 0} %a
  %good = ge %k, %nil
  check {exc = 0} %good
  jump ^head(%zero, %nil)
^head(%i: i64, %s: f64):
  %go = lt %i, %n
  branch %go, ^body, ^exit
^body:
  %x = get %a, %i
  call @square(%x) -> ^next
^next(%x2: f64):
  %p = mul %x2, %k
  %t = add %s, %p
  %j = add %i, %one
  jump ^head(%j, %t)
^exit:
  return %s
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "total.ir"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("way", ["--compiled", "--interpret", "--as-is", None])
def test_run(file: Path, capsys: Any, way: str | None) -> None:
    options = [way] if way else []
    assert main(["run", "total.ir", *options, "[1.0, 2.0]", "3"]) == 0
    np.save("a.npy", np.arange(4.0))
    assert main(["run", *options, "total.ir", "a.npy", "0.5"]) == 0
    assert main(["run", "total.ir", *options, "--entry", "square", "-3.0"]) == 0
    assert capsys.readouterr().out.split() == ["15.0", "7.0", "9.0"]


def test_a_gradient_travels_as_one_file(file: Path, capsys: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total += x[i] * np.sin(y)
        return total
    slope = jit(f, grad=True).grad
    file.write_text(slope.inspect("ir", spec("f64[:]"), spec("f64")))
    x = np.array([1.0, 2.0])
    assert main(["run", "total.ir", "[1.0, 2.0]", "3.0"]) == 0
    assert capsys.readouterr().out == f"{slope(x, 3.0)}\n"
    assert main(["opt", "--passes=cps,differentiate", "total.ir"]) == 0
    file.write_text(capsys.readouterr().out)
    assert main(["run", "--interpret", "total.ir", "[1.0, 2.0]", "3.0"]) == 0
    assert capsys.readouterr().out == f"{slope(x, 3.0)}\n"


def test_verify(file: Path, capsys: Any) -> None:
    assert main(["verify", "total.ir"]) == 0
    assert "well formed at every stage" in capsys.readouterr().out


def test_opt_prints_the_module_after_the_passes(file: Path, capsys: Any) -> None:
    assert main(["opt", "total.ir"]) == 0
    plain = capsys.readouterr().out
    assert "call @square" in plain
    assert main(["opt", "--passes=inline,dce", "total.ir"]) == 0
    inlined = capsys.readouterr().out
    assert "call @square" not in inlined and "func @total" in inlined
    file.write_text(plain)
    assert main(["opt", "total.ir"]) == 0
    assert capsys.readouterr().out == plain


def test_the_list_of_passes(capsys: Any) -> None:
    assert main(["opt", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PASSES_BY_NAME)
    assert all(len(line.split()) > 4 for line in lines)


def test_inspect(file: Path, capsys: Any) -> None:
    texts = {"ir": "call @square", "cps": "^preheader", "optimized": "func @total", "loops": "func @total",
             "mlir": "func.func", "llvm": "define", "asm": "ret"}
    for stage, part in texts.items():
        assert main(["inspect", "total.ir", "--stage", stage]) == 0
        assert part in capsys.readouterr().out, stage


@pytest.mark.parametrize(("old", "new", "what"), [
    ("%p = mul %x2, %k", "%p = mul %x2 %k", "total.ir:23: mul: takes 2 operands"),
    ("%p = mul %x2, %k", "%p = mull %x2, %k", "total.ir:23: "),
    ("%p = mul %x2, %k", "%p = mul %x2, %i", "total.ir:23: mul: mixed dtypes"),
    ("@square(%x: f64)", "@square(%x: i64)", "total.ir:21: @total: the callee takes i64"),
    (PROGRAM, "", "total.ir: there is no function in it"),
])
def test_wrong_text_is_refused_with_its_line(file: Path, capsys: Any, old: str, new: str, what: str) -> None:
    assert PROGRAM.count(old) == 1
    file.write_text(PROGRAM.replace(old, new))
    for command in (["run", "total.ir"], ["verify", "total.ir"], ["inspect", "total.ir"], ["opt", "total.ir"]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert all(line.startswith("total.ir:") for line in error.splitlines())
        assert what in error


@pytest.mark.parametrize(("command", "what"), [
    ("run total.ir [1.0] -1.0", "total.ir: @total: ValueError: negative"),
    ("run total.ir [1.0]", "total.ir: @total takes 2 arguments, not 1"),
    ("run total.ir 1.0 1.0", "%a has the type f64[?], not float64"),
    ("run total.ir --entry square [1.0]", "%x has the type f64, not float64[1]"),
    ("run total.ir missing.npy 1.0", "missing.npy: "),
    ("run --entry nothing total.ir", "there is no function @nothing, only @square, @total"),
    ("inspect missing.ir", "missing.ir: No such file"),
    ("opt --passes=cps,nothing total.ir", "no pass nothing"),
    ("opt", "opt takes a file of IR"),
])
def test_wrong_commands(file: Path, capsys: Any, command: str, what: str) -> None:
    assert main(command.split()) == 1
    error = capsys.readouterr().err
    assert what in error and len(error.splitlines()) == 1


def test_the_entry_is_named_if_it_is_not_clear(file: Path, capsys: Any) -> None:
    file.write_text(PROGRAM.replace("call @square(%x)", "call @total(%a, %x)"))
    assert main(["run", "total.ir", "2.0"]) == 1
    assert "--entry with one of @square, @total" in capsys.readouterr().err


def test_a_derivative_without_code_is_named(file: Path, capsys: Any) -> None:
    file.write_text("derived @square.vjp = vjp @square wrt (0,)\n" + PROGRAM)
    assert main(["run", "--interpret", "--entry", "square.vjp", "total.ir", "2.0", "1.0"]) == 1
    assert "@square.vjp has no code yet" in capsys.readouterr().err
    assert main(["run", "--entry", "square.vjp", "total.ir", "3.0", "1.0"]) == 0
    assert capsys.readouterr().out.split() == ["9.0", "6.0"]
