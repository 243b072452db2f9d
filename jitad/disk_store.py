"""Keeps byte strings under keys in a folder of the user, for later processes: ``get``, ``put``.

Machine code is read from here and run, so nothing is believed that another user may have written: folder and files
belong to this user or to root, and only their owner can write them.  A file begins with a checksum over its contents
and its key; what is cut off, altered, renamed or foreign is ignored, and replaced by the next ``put``.

Any number of processes may share a folder.  A file is written under another name first and then renamed, so readers
need no locks and see all of it or nothing.  Nothing here raises because of the state of the disk: if a folder cannot be
read or written, the caller makes anew what it wants.

``JITAD_CACHE_DIR`` is the folder, by default ``jitad`` in the user's cache folder; if it is set to an empty string,
nothing is stored.  ``JITAD_CACHE_SIZE`` bounds the bytes in it: what has not been used for longest is dropped first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

DEFAULT_SIZE = 512 << 20
"""Bytes: about 10,000 functions of a typical size (50 kB)."""

_ROOM = 0.9                       # fraction of the bound that is left when files are dropped, so that it happens rarely
_ABANDONED = 3600                 # seconds after which a file that is still being written has been given up
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MAGIC = b"jitad 1\n"
_DIGEST = hashlib.blake2b().digest_size
_NAME = 40                        # hexadecimal digits of a file's name
_SUFFIX, _NEW = ".jitad", ".new"


def get(key: str) -> bytes | None:
    """The bytes under a key, or None."""
    home = _trusted_folder()
    return None if home is None else _read(os.path.join(home, _file_of(key)), key)


def put(key: str, data: bytes) -> bool:
    """Store bytes under a key.  Returns False if that is not possible."""
    home, bound = _trusted_folder(make=True), limit()
    whole = _MAGIC + _seal(data, key) + data
    if home is None or len(whole) > bound:
        return False
    if not _write(os.path.join(home, _file_of(key)), whole):
        return False
    _keep_within(home, bound)
    return True


def directory() -> str | None:
    """The folder, or None if there is none: switched off, or a relative path because the user has no home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.environ.get("JITAD_CACHE_DIR", os.path.join(base, "jitad"))
    return home if os.path.isabs(home) and hasattr(os, "getuid") else None


def limit() -> int:
    """The most bytes that the folder holds: ``JITAD_CACHE_SIZE``, a number with ``k``, ``M`` or ``G`` behind it."""
    text = os.environ.get("JITAD_CACHE_SIZE", "").strip().lower().removesuffix("b")
    if not text:
        return DEFAULT_SIZE
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "")
    try:
        return int(float(number) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise ValueError(f"JITAD_CACHE_SIZE={text}: a number of bytes, such as 200M or 1G") from None


class Contents(NamedTuple):
    """The contents of the folder."""

    folder: str | None
    files: int
    size: int
    limit: int


def contents() -> Contents:
    home = directory()
    sizes = [file.size for file in _files(home)] if home is not None else []
    return Contents(home, len(sizes), sum(sizes), limit())


def clear() -> int:
    """Remove all files that are from here; returns their number."""
    home = directory()
    return sum(_remove(file.path) for file in _files(home)) if home is not None else 0


# --- files ----------------------------------------------------------------------------------------

def _file_of(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=_NAME // 2).hexdigest() + _SUFFIX


def _seal(data: bytes, key: str) -> bytes:
    """A checksum that shows that data is complete and was stored under this key."""
    return hashlib.blake2b(data, key=hashlib.blake2b(key.encode()).digest()).digest()


def _is_safe(facts: os.stat_result) -> bool:
    """True if only this user, or root, can have written a file or folder."""
    return facts.st_uid in (os.getuid(), 0) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _trusted_folder(make: bool = False) -> str | None:
    """The folder if it is there and nobody else can write it."""
    home = directory()
    if home is None:
        return None
    with contextlib.suppress(OSError):
        if make:
            os.makedirs(home, mode=0o700, exist_ok=True)
        facts = os.stat(home)
        return home if stat.S_ISDIR(facts.st_mode) and _is_safe(facts) else None
    return None


def _read(path: str, key: str) -> bytes | None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:        # a pipe would block
            facts = os.fstat(file.fileno())
            if not _is_safe(facts) or not stat.S_ISREG(facts.st_mode):
                return None
            whole = file.read()
            with contextlib.suppress(OSError):                  # the folder may be read-only
                os.utime(file.fileno())                         # the time of its last use
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST
    data = whole[start:]
    return data if whole[:start] == _MAGIC + _seal(data, key) else None


def _write(path: str, whole: bytes) -> bool:
    """Write a file atomically."""
    new = f"{path}.{os.getpid()}.{time.time_ns()}{_NEW}"
    try:
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(whole)
            os.replace(new, path)
        except BaseException:
            _remove(new)
            raise
    except OSError:
        return False
    return True


def _remove(path: str) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(path)
        return True
    return False


# --- the bound ------------------------------------------------------------------------------------

class _File(NamedTuple):
    path: str
    size: int
    used: float

    @property
    def is_whole(self) -> bool:
        return self.path.endswith(_SUFFIX)


def _files(home: str) -> Iterator[_File]:
    """The files of a folder that are from here, also those that are being written."""
    with contextlib.suppress(OSError), os.scandir(home) as found:
        for entry in found:
            if entry.name[_NAME:].startswith(_SUFFIX) and entry.name.endswith((_SUFFIX, _NEW)):
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    yield _File(entry.path, facts.st_size, facts.st_mtime)


def _keep_within(home: str, bound: int) -> None:
    """Drop the files that have not been used for longest if there are too many, and those that nobody finishes."""
    files = sorted(_files(home), key=lambda file: file.used)
    left = sum(file.size for file in files)
    most = bound if left <= bound else bound * _ROOM
    for file in files[:-1]:                                     # the last has just been written
        stale = not file.is_whole and time.time() - file.used > _ABANDONED
        if (stale or left > most and file.is_whole) and _remove(file.path):
            left -= file.size
