"""Machine code on disk, for later processes: of the routines that all modules share.

Compiling the product of matrices takes 20 to 30 ms, which every process that has one would wait for anew; other
libraries come with theirs compiled.  A file is named after all that its code follows from (``Native``: the LLVM IR, the
compiler, the processor), so nothing on disk is ever out of date, and the directory may be emptied at any time.

``JITAD_CACHE_DIR`` is the directory, by default ``jitad`` where the user's caches are; set, but empty, it keeps
nothing.  Files are run as they are, so one that is not whole, or that anybody else may have written, is not read.
Nothing here fails: where no file can be read or written, code is made anew.
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
    """What ``make`` yields, or yielded in an earlier process.  ``origin`` tells all that it follows from."""
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
    """Where the files are, or ``None`` if there are to be none."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.environ.get("JITAD_CACHE_DIR", os.path.join(base, "jitad"))
    return home if os.path.isabs(home) and hasattr(os, "getuid") else None


def _seal(data: bytes, name: bytes) -> bytes:
    """What shows that a file is whole, and has the name that it was given."""
    return hashlib.blake2b(data, key=name).digest()


def _read(path: str, name: bytes) -> bytes | None:
    """The contents of a file that is this user's own and whole."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:        # of a pipe it does not wait
            facts = os.fstat(file.fileno())
            others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if facts.st_uid != os.getuid() or others or not stat.S_ISREG(facts.st_mode):
                return None
            data = file.read()
    except OSError:
        return None
    return data[_DIGEST:] if _seal(data[_DIGEST:], name) == data[:_DIGEST] else None


def _write(path: str, data: bytes, name: bytes) -> None:
    """Write a file, which is there as a whole or not at all."""
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
