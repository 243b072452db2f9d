"""``JITAD_CPU``: the processor that code is compiled for, and names that are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from jitad.lowering.llvm import processor

pytestmark = pytest.mark.skipif(not llvm.get_default_triple().startswith("x86_64"), reason="processors of x86-64")

PROGRAM = """
import re
import numpy as np
from jitad import jit
from jitad.lowering.jit import cpu

@jit
def f(x, w):
    return np.exp(x) @ w + 1

print(f(np.ones((9, 40)), np.ones((40, 9)))[0, 0])
print(cpu.target().cpu, cpu.target().vector_bits, *sorted(set(re.findall("[xyz]mm|_ZGV.N", f.inspect("asm")))))
"""


def run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"JITAD_CPU": name, "JITAD_CACHE_DIR": str(folder / "cache")})


def choose(monkeypatch: pytest.MonkeyPatch, name: str) -> processor.Processor:
    monkeypatch.setenv("JITAD_CPU", name)
    return processor.chosen()


@pytest.mark.slow
def test_a_name_stands_for_the_features_that_llvm_gives_it() -> None:
    v2, v3, v4 = (processor.features(f"x86-64-{level}") for level in ("v2", "v3", "v4"))
    assert {"sse4.2", "popcnt", "cx16"} <= v2 and not v2 & {"avx", "fma", "avx2"}
    assert {"avx2", "fma", "bmi2"} <= v3 and not any(f.startswith("avx512") for f in v3)
    assert {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= v4 and v2 < v3 < v4
    assert "sse4a" in processor.features("znver4") and "sse4a" not in processor.features("skylake-avx512")
    assert processor.features("no-processor") == frozenset()


@pytest.mark.parametrize("name", ["", "native"])
def test_without_a_name_it_is_this_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, name) == processor.Processor(llvm.get_host_cpu_name(),
                                                            str(llvm.get_host_cpu_features().flatten()))


def test_only_the_features_of_the_name_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose(monkeypatch, "x86-64-v2")
    assert chosen.name == "x86-64-v2"
    assert "+sse4.2" in chosen.features.split(",") and "avx" not in chosen.features


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no-processor", "i386", 'a "b"', "x86-64-v9"])
def test_an_unknown_name_is_refused_with_those_that_there_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"LLVM knows no 64-bit processor of this name; valid names are native, "
                                         r"x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and LLVM's own: .*skylake.*znver4"):
        choose(monkeypatch, name)


@pytest.mark.slow
def test_what_this_machine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_host", lambda: processor.features("x86-64-v3"))
    with pytest.raises(ValueError, match=r"JITAD_CPU=x86-64-v4: .* cannot run code for it, as it lacks .*avx512f.*; it "
                                         r"runs native, x86-64, x86-64-v2, x86-64-v3$"):
        choose(monkeypatch, "x86-64-v4")
    assert choose(monkeypatch, "x86-64-v3").features.count("+avx2") == 1


def test_what_no_code_is_made_of_may_be_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual machine hides instructions that only its host may use."""
    monkeypatch.setattr(processor, "_host", lambda: processor.features("skylake-avx512") - {"pku", "clwb"})
    have = choose(monkeypatch, "skylake-avx512").features.split(",")
    assert {"-pku", "-clwb", "+avx512f"} <= set(have)


@pytest.mark.long
@pytest.mark.slow
def test_code_and_its_files_on_disk_are_those_of_the_processor(tmp_path: Path) -> None:
    """Vectors, libmvec's functions, and the routines that later processes read."""
    kept: list[set[str]] = []
    for level in ("x86-64-v2", "x86-64"):
        ran = run(tmp_path, level)
        assert ran.returncode == 0, ran.stderr
        value, told = ran.stdout.splitlines()
        assert float(value) == pytest.approx(40 * 2.718281828459045 + 1)
        name, bits, *used = told.split()
        assert (name, bits) == (level, "128") and set(used) <= {"xmm", "_ZGVbN"}
        kept.append({file.name for file in (tmp_path / "cache").iterdir()})
    assert kept[0] and len(kept[1]) == 2 * len(kept[0])
    refused = run(tmp_path, "no-processor")
    assert refused.returncode == 1 and "ValueError: JITAD_CPU=no-processor" in refused.stderr
