"""Machine code of shared routines on disk (``lowering/jit/object_cache.py``): read if it is valid, else compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from jitad.lowering.jit import cpu
from jitad.lowering.jit.object_cache import directory, stored
from jitad.lowering.matmul import gemm

from jitad import jit


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("JITAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Counts calls."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> bytes:
        self.times += 1
        return b"code" * 100


def test_made_once(home: Path) -> None:
    make = Maker()
    assert stored("a", make) == stored("a", make) == b"code" * 100
    assert make.times == 1
    stored("b", make)
    assert make.times == 2
    assert len(list(home.iterdir())) == 2
    assert home.stat().st_mode & 0o077 == 0


def shortened(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def altered(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def opened_to_others(file: Path) -> None:
    file.chmod(0o666)


def made_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize("spoil", [shortened, altered, emptied, opened_to_others, made_a_pipe])
def test_what_is_spoilt_is_made_anew(home: Path, spoil: Callable[[Path], None]) -> None:
    make = Maker()
    stored("a", make)
    file, = home.iterdir()
    spoil(file)
    assert stored("a", make) == b"code" * 100
    assert make.times == 2
    assert stored("a", make) == b"code" * 100               # and has been written again
    assert make.times == 2


def test_a_file_under_another_name(home: Path) -> None:
    """It is whole, and other code."""
    stored("a", lambda: b"code of a")
    file, = home.iterdir()
    stored("b", lambda: b"code of b")
    other, = set(home.iterdir()) - {file}
    other.write_bytes(file.read_bytes())
    assert stored("b", lambda: b"code of b") == b"code of b" and stored("a", lambda: b"") == b"code of a"


def test_of_another_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    stored("a", make)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    stored("a", make)
    assert make.times == 2


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    make = Maker()
    for where in ("", "relative", str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        monkeypatch.setenv("JITAD_CACHE_DIR", where)
        assert stored("a", make) == b"code" * 100
    assert make.times == 4


def test_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITAD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert directory() == "/somewhere/jitad"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert directory() == "/home/me/.cache/jitad"
    monkeypatch.setenv("JITAD_CACHE_DIR", "")
    assert directory() is None


def test_a_failure_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        stored("a", Maker())
    assert not list(home.iterdir())


_IN_USE: list[cpu.Native] = []                # functions compiled by other tests call it by its address


def test_products_from_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The routine for products runs the same when another process has compiled it."""
    name = "jitad.product.f64"
    _IN_USE.append(cpu._written(gemm, name))
    monkeypatch.setenv("JITAD_CACHE_DIR", str(tmp_path))
    a, b = np.random.default_rng(0).normal(size=(2, 19, 19))
    results, phases = [], []
    for _ in range(2):
        cpu._written.cache_clear()
        results.append(jit(lambda x, y: x @ y)(a, b))
        _IN_USE.append(cpu._written(gemm, name))
        phases.append(set(_IN_USE[-1].times))
    assert phases == [{"llvm", "codegen", "link"}, {"link"}]
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], a @ b, rtol=1e-12)
    assert len(list(tmp_path.glob("*.o"))) == 1
