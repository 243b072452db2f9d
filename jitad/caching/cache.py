"""Looks compiled code up on disk, and writes it there."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import disk_store
from ..calling.compiled import Compiled
from ..calling.signature import Signature
from ..errors import DeviceError
from ..frontend.captured.options import Options
from ..lowering.jit.image import supported
from . import digests, format, keys, libraries
from .references import Unnameable
from .resolution import Stale

VARIANTS = 4
"""Entries for one key, whose guards differ: a global constant that several scripts set to values of their own."""


_INVALID = (Stale, DeviceError, OSError, pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError,
            TypeError, ValueError)
"""The exceptions of reading an entry for another program, or one that another version of a library wrote."""


class Subject(NamedTuple):
    """The program that is compiled: the function as written, what is derived from it, and how."""

    root: Any
    derive: tuple[str, Any] | None
    static: tuple[str | int, ...]
    whole: bool


def is_on(options: Options) -> bool:
    """True if code for these options is kept on disk."""
    return supported() and sys.implementation.name == "cpython" and disk_store.directory() is not None


def get_ready() -> None:
    """Does what all look-ups have in common."""
    keys.environment()
    libraries.get_ready()


class Lookup:
    """The entries for one signature.  ``found``: code that is valid now, if there is any and it may be used."""

    def __init__(self, subject: Subject, options: Options, signature: Signature, leaves: Sequence[Any],
                 use: bool = True) -> None:
        digests.forget()
        self.subject = subject
        self.found: Compiled | None = None
        self.reason = ""                                     # why nothing can be stored
        self._place: str | None = None                       # the key under which new code is stored
        try:
            key = keys.key(*subject, options, signature)
        except Unnameable as e:
            self.reason = str(e)
            return
        names = [f"{key}.{number}" for number in range(VARIANTS)]
        for name in names:
            data = disk_store.get(name)
            if data is None:
                self._place = name
                break
            try:
                compiled = format.from_bytes(data, subject.root, signature, leaves)
            except _INVALID:
                self._place = self._place or name
                continue
            self._place = name
            self.found = compiled if use else None
            break
        self._place = self._place or names[0]

    def store(self, compiled: Compiled) -> bool:
        """Write compiled code to the disk.  Returns False, and sets ``reason``, if that is not possible."""
        digests.forget()
        portable, compiled.portable = compiled.portable, None
        if self._place is None or portable is None:
            return False
        try:
            data = format.to_bytes(compiled, portable, self.subject.root)
        except Unnameable as e:
            self.reason = str(e)
            return False
        self.reason = "the folder of the cache cannot be written"
        return disk_store.put(self._place, data)
