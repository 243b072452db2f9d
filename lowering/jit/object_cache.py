"""Keeps the machine code of the routines that all modules share on disk, for later processes.

Compiling the matrix product takes 20 to 30 ms, for which every process that uses it would wait; other libraries ship
theirs compiled.  A file is named after everything that determines its code (``Native``: the LLVM IR, the compiler, the
processor), so files are never out of date, and the directory may be emptied at any time.

``JITAD_CACHE_DIR`` is the directory, by default ``jitad`` in the user's cache directory.  If it is set to an empty
string, nothing is stored.  Files are executed without further checks, so a file that is incomplete, or that another
user may have written, is not read.  Nothing here raises: if a file cannot be read or written, code is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable

_DIGEST = hashlib.blake2b().digest_size


def stored(origin: str, make: Callable[[], bytes]) -> bytes:
    """The result of ``make``, from this or an earlier process.  ``origin`` holds everything that determines it."""
    if (home := directory()) is None:
        return make()
    name = hashlib.blake2b(origin.encode(), digest_size=20)
    path = os.path.join(home, name.hexdigest() + ".o")
    if (found := _read(path, name.digest())) is not None:
        return found
    made = make()
    _write(path, made, name.digest())
    return made


def directory() -> str | None:
    """The cache directory, or None if there is none."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.environ.get("JITAD_CACHE_DIR", os.path.join(base, "jitad"))
    return home if os.path.isabs(home) and hasattr(os, "getuid") else None


def _seal(data: bytes, name: bytes) -> bytes:
    """A checksum that shows that a file is complete and has its original name."""
    return hashlib.blake2b(data, key=name).digest()


def _read(path: str, name: bytes) -> bytes | None:
    """The contents of a file that is complete and writable by this user only; None for other files."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:        # a pipe would block
            facts = os.fstat(file.fileno())
            others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if facts.st_uid != os.getuid() or others or not stat.S_ISREG(facts.st_mode):
                return None
            data = file.read()
    except OSError:
        return None
    return data[_DIGEST:] if _seal(data[_DIGEST:], name) == data[:_DIGEST] else None


def _write(path: str, data: bytes, name: bytes) -> None:
    """Write a file atomically."""
    new = f"{path}.{os.getpid()}.{time.time_ns()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_seal(data, name) + data)
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
