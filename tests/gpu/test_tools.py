"""Other tools with a function that runs on a device: C interfaces, the command line, pickling, the disk."""

import concurrent.futures
import multiprocessing
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, aot, gpu, jit
from jitad.command_line.main import main

X = np.linspace(-1.0, 2.0, 300)

MODULE = '''
import numpy as np
from jitad import jit

@jit(target="cuda-sim", grad=True)
def on_device(w: "f64[:]", x: "f64[:]") -> float:
    return np.sum(np.tanh(w * x))
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "a_device_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "a_device_module", raising=False)
    import a_device_module  # type: ignore[import-not-found]
    return a_device_module


REFUSED = (r"(?s)a C interface of on_device, which is jit\(target='cuda-sim'\).*a_device_module.py.*line 6.*"
           "Instead: export on_device.py_func")


def test_c_interfaces_are_refused(module: Any, capsys: Any) -> None:
    """They would have code for the processor, without a word."""
    f = module.on_device
    for make in (lambda: aot.export(f), lambda: aot.export(f.grad), f.cfunc, f.address):
        with pytest.raises(UnsupportedError, match=REFUSED):
            make()
    assert main(["build", "a_device_module:on_device", "-o", "liba.so"]) == 1
    assert "export on_device.py_func" in capsys.readouterr().err and not Path("liba.so").exists()
    aot.export(f.py_func)


def test_the_command_line_shows_kernels(module: Any, capsys: Any) -> None:
    name = ["a_device_module:on_device", "--signature", "f64[:], f64[:]"]
    assert main(["inspect", *name, "--stage", "plan"]) == 0
    assert main(["inspect", *name, "--stage", "ptx", "--arch", "sm_90"]) == 0
    shown = capsys.readouterr().out
    assert "kernel on_device_nest" in shown and ".target sm_90" in shown and ".entry on_device_nest" in shown
    Path("a.ir").write_text("func @f(%x: f64) -> (f64) {\n^entry:\n  return %x\n}\n")
    assert main(["inspect", "a.ir", "--stage", "plan"]) == 1
    assert "plan is a stage of functions of jit(target='cuda')" in capsys.readouterr().err


def test_the_disk_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="(?s)cache=True.*the PTX of kernels is kept on disk in any case"):
        jit(lambda x: x, target="cuda", cache=True)


@pytest.mark.slow
def test_pickles(module: Any) -> None:
    """Functions keep their target, arrays come back to the device; other processes compile for themselves."""
    f, d = module.on_device, gpu.asarray(X, "cuda-sim")
    again = pickle.loads(pickle.dumps(f))
    assert again.jit_options["target"] == "cuda-sim" and np.isclose(again(d, d), np.tanh(X * X).sum())
    moved = pickle.loads(pickle.dumps(d[::2]))
    assert moved.target == "cuda-sim" and np.array_equal(moved.numpy(), X[::2])
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        value, slope = pool.submit(f.value_and_grad, d, X).result()
    assert np.isclose(value, np.tanh(X * X).sum()) and np.allclose(slope.numpy(), X / np.cosh(X * X) ** 2)
