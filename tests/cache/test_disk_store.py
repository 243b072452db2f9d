"""The disk cache's files (``jitad/disk_store.py``): read if they are valid, else made anew; their size is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jitad.lowering.jit.object_cache import stored

from jitad import disk_store
from jitad.disk_store import directory, get, put


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
    if (me := os.getuid()) == 0:                            # whose files everybody trusts
        os.chown(next(home.iterdir()), 12345, -1)
    else:
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


# --- files and folders that others can write ------------------------------------------------------

@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write(home: Path, mode: int) -> None:
    assert put("a", b"code")
    home.chmod(mode)
    assert get("a") is None and not put("b", b"code")
    home.chmod(0o700)
    assert get("a") == b"code" and get("b") is None


def test_a_read_only_folder(home: Path) -> None:
    """Files are read, and nothing is raised for those that cannot be written; root may write anywhere."""
    put("a", b"code")
    home.chmod(0o500)
    assert get("a") == b"code"
    if os.getuid() != 0:
        assert not put("b", b"code")
    home.chmod(0o700)


def test_files_of_others_are_left_alone(home: Path) -> None:
    put("a", b"code")
    foreign = [home / "notes.txt", home / "0123.jitad", home / f"{'0' * 40}.o"]
    for file in foreign:
        file.write_text("text")
    assert disk_store.contents().files == 1 and disk_store.clear() == 1
    assert sorted(home.iterdir()) == sorted(foreign) and get("a") is None


# --- size -----------------------------------------------------------------------------------------

def test_the_oldest_use_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_CACHE_SIZE", "10k")
    for number in range(8):
        put(str(number), bytes(1000))
        os.utime(home / disk_store._file_of(str(number)), (number, number))
    assert get("0") is not None                             # used now
    assert put("8", bytes(2000))
    left = {key for key in map(str, range(9)) if get(key) is not None}
    assert left == {"0", "3", "4", "5", "6", "7", "8"}
    assert disk_store.contents().size <= 10 << 10
    assert not put("9", bytes(11 << 10)) and get("8") is not None


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"": disk_store.DEFAULT_SIZE, "1000": 1000, "2k": 2048, "1.5M": 3 << 19, "1GB": 1 << 30}
    for text, bytes_ in known.items():
        monkeypatch.setenv("JITAD_CACHE_SIZE", text)
        assert disk_store.limit() == bytes_
    monkeypatch.setenv("JITAD_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="JITAD_CACHE_SIZE"):
        disk_store.limit()


def test_files_that_nobody_finishes_are_removed(home: Path) -> None:
    put("a", b"code")
    old, new = [home / f"{disk_store._file_of('b')}.{n}.1.new" for n in (1, 2)]
    for file in (old, new):
        file.write_bytes(b"")
    os.utime(old, (time.time() - 4000,) * 2)
    put("c", b"code")
    assert not old.exists() and new.exists()


# --- many processes -------------------------------------------------------------------------------

_RACE = """
import sys
from jitad.disk_store import get, put
for k in range(200):
    key = str(k % 5)
    found = get(key)
    assert found is None or found == key.encode() * 5000, "torn"
    put(key, key.encode() * 5000)
"""


@pytest.mark.slow
def test_processes_race(home: Path) -> None:
    environment = os.environ | {"JITAD_CACHE_SIZE": "40k"}      # so that files are dropped while others read them
    running = [subprocess.Popen([sys.executable, "-c", _RACE], env=environment) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert {file.suffix for file in home.iterdir()} == {".jitad"} and disk_store.contents().size <= 40 << 10


def test_command(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from jitad.command_line.main import main
    put("a", bytes(2000))
    assert main(["cache", "info"]) == 0 and main(["cache", "clear"]) == 0 and main(["cache", "info"]) == 0
    first, cleared, last = capsys.readouterr().out.splitlines()
    assert first == f"{home}: 1 files, 2.0 KiB of at most 512.0 MiB"
    assert cleared == f"removed 1 files from {home}" and last.startswith(f"{home}: 0 files")
