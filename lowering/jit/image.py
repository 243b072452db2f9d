"""Links object files to an *image*, machine code that can be copied to any address, and loads images.

Neither takes LLVM: a process that finds all its code in the disk cache does without, since loading LLVM alone takes
longer than many a compilation.  ``link`` resolves all references within an image, which are relative, and collects the
others in a table of addresses at the end of the code.  ``load`` copies an image to new pages, fills in the table, and
makes the pages executable.  They are never writable and executable at once.

It knows what LLVM writes for position-independent code on x86-64 Linux: ELF files with relocations relative to the
code, or to the table of addresses.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_HEADER = struct.Struct("<4sBBBBBxxxxxxxHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_X86_64 = 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITE, _ALLOCATED = 1, 2
_LOCAL, _IS_FILE, _IS_SECTION = 0, 4, 3
_UNDEFINED, _SPECIAL = 0, 0xFF00
_JUMP, _JUMP_SIZE = b"\xff\x25", 8              # jmp *(displacement of a word behind this instruction); padded

# Types of relocations.
_ABSOLUTE, _RELATIVE, _CALL, _RELATIVE_64 = 1, 2, 4, 24
_BY_TABLE = (9, 41, 42)
_WIDTH = {_RELATIVE: "<i", _CALL: "<i", _RELATIVE_64: "<q", **dict.fromkeys(_BY_TABLE, "<i")}


class Unlinkable(Exception):
    """An object file that this linker does not know."""


class Image(NamedTuple):
    """Machine code that can be copied to any address that begins a page.

    The first ``fixed`` bytes are code and constants, a multiple of the page size; the rest is writable.  ``size``
    counts bytes that are zero behind ``code`` too.  ``outside``: where the address of each external symbol is stored;
    ``inside``: where the address of the byte at an offset is.  ``names``: the offsets of exported functions.
    """

    code: bytes
    fixed: int
    size: int
    outside: Sequence[tuple[int, str]]
    inside: Sequence[tuple[int, int]]
    names: dict[str, int]


class Unit(NamedTuple):
    """An object file, and the units that define what it calls, by symbol; two units may call one another."""

    data: bytes
    imports: dict[str, Unit]


def supported() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32


# --- linking --------------------------------------------------------------------------------------

class _Section(NamedTuple):
    kind: int
    flags: int
    data: bytes
    size: int
    alignment: int
    link: int
    target: int                                   # of relocations: the section that they apply to


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    is_local: bool


class _Object:
    """An object file: its sections, and its symbols."""

    def __init__(self, data: bytes) -> None:
        head = _HEADER.unpack_from(data)
        if head[0] != b"\x7fELF" or head[1:3] != (2, 1) or head[7] != _X86_64:
            raise Unlinkable("not an object file for x86-64 Linux")
        start, count = head[11], head[17]
        raw = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
        self.names = [self._text(data, raw[head[18]], s[0]) for s in raw]
        self.sections = [_Section(kind, flags, b"" if kind == _NOBITS else data[offset:offset + size], size, align,
                                  link, info) for _, kind, flags, _, offset, size, link, info, align, _ in raw]
        self.symbols: list[_Symbol] = []
        for section in self.sections:
            for at in range(0, section.size if section.kind == _SYMTAB else 0, _SYMBOL.size):
                name, info, _, where, value, _ = _SYMBOL.unpack_from(section.data, at)
                self.symbols.append(_Symbol(self._text(data, raw[section.link], name), where, value,
                                            info >> 4 == _LOCAL))

    @staticmethod
    def _text(data: bytes, table: tuple[int, ...], at: int) -> str:
        start = table[4] + at
        return data[start:data.index(b"\0", start)].decode()

    def is_loaded(self, number: int) -> bool:
        section = self.sections[number]
        return bool(section.flags & _ALLOCATED) and section.kind in (_PROGBITS, _NOBITS) and \
            not self.names[number].startswith((".eh_frame", ".note"))

    def relocations(self) -> Iterator[tuple[int, int, int, _Symbol, int]]:
        """Of sections that are loaded: section, offset, type, symbol, addend."""
        for section in self.sections:
            if section.kind == _RELA and self.is_loaded(section.target):
                for at in range(0, section.size, _RELOCATION.size):
                    offset, info, addend = _RELOCATION.unpack_from(section.data, at)
                    yield section.target, offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend


def link(unit: Unit, names: Sequence[str]) -> Image:
    """The image of a unit and of all that it calls in other units; ``names`` are those that are exported."""
    return _Linker(unit).image(names)


class _Linker:
    def __init__(self, unit: Unit) -> None:
        self.units: dict[int, tuple[Unit, _Object]] = {}
        self._add(unit)
        self.first = id(unit)
        self.places: dict[tuple[int, int], int] = {}             # offsets of sections, by unit and number
        self.table: dict[Any, int] = {}                          # words of the table of addresses: numbers
        self.jumps: dict[str, int] = {}                          # of external functions that are called
        self.exported = {key: {s.name: s for s in found.symbols if not s.is_local and s.section != _UNDEFINED}
                         for key, (_, found) in self.units.items()}

    def _add(self, unit: Unit) -> None:
        if id(unit) not in self.units:
            self.units[id(unit)] = unit, _Object(unit.data)
            for other in unit.imports.values():
                self._add(other)

    def image(self, names: Sequence[str]) -> Image:
        end = self._place(0, writable=False)
        references = [(key, *r, self._home(key, r[3])) for key, (_, o) in self.units.items() for r in o.relocations()]
        for _, _, _, kind, symbol, _, home in references:
            if kind in _BY_TABLE:
                self.table.setdefault(self._word(symbol, home), len(self.table))
            elif home is None and kind == _CALL:
                self.jumps.setdefault(symbol.name, len(self.jumps))
                self.table.setdefault(symbol.name, len(self.table))
        self.first_jump = _aligned(end, 16)
        self.first_word = self.first_jump + _JUMP_SIZE * len(self.jumps)
        fixed = _aligned(self.first_word + 8 * len(self.table), mmap.PAGESIZE)
        size = self._place(fixed, writable=True)
        self.code, self.outside, self.inside = bytearray(size), list[tuple[int, str]](), list[tuple[int, int]]()
        self._fill(references)
        exported = {name: self._offset(*self._defined(self.first, name)) for name in names}
        return Image(bytes(self.code).rstrip(b"\0"), fixed, size, self.outside, self.inside, exported)

    def _place(self, at: int, writable: bool) -> int:
        """Lay out the sections that are writable, or those that are not, from an offset on; returns their end."""
        for key, (_, found) in self.units.items():
            for number, section in enumerate(found.sections):
                if found.is_loaded(number) and bool(section.flags & _WRITE) == writable:
                    at = self.places[key, number] = _aligned(at, max(1, section.alignment))
                    at += section.size
        return at

    # --- symbols ----------------------------------------------------------------------------------

    def _home(self, key: int, symbol: _Symbol) -> tuple[int, _Symbol] | None:
        """The unit that defines a symbol, and the symbol there; None if it is external."""
        if symbol.section >= _SPECIAL:
            raise Unlinkable(f"{symbol.name} is a symbol of a special kind")
        if symbol.section != _UNDEFINED:
            return key, symbol
        other = self.units[key][0].imports.get(symbol.name)
        return None if other is None else self._defined(id(other), symbol.name)

    def _defined(self, key: int, name: str) -> tuple[int, _Symbol]:
        if name not in self.exported[key]:
            raise Unlinkable(f"{name} is not defined where it should be")
        return key, self.exported[key][name]

    def _offset(self, key: int, symbol: _Symbol) -> int:
        if (key, symbol.section) not in self.places:
            raise Unlinkable(f"{symbol.name or 'a symbol'} is in a section that is not loaded")
        return self.places[key, symbol.section] + symbol.value

    def _word(self, symbol: _Symbol, home: tuple[int, _Symbol] | None) -> Any:
        """The key of a word in the table of addresses."""
        return symbol.name if home is None else self._offset_later(home)

    @staticmethod
    def _offset_later(home: tuple[int, _Symbol]) -> tuple[int, int, int]:
        return home[0], home[1].section, home[1].value

    # --- contents ---------------------------------------------------------------------------------

    def _fill(self, references: Sequence[tuple[Any, ...]]) -> None:
        for (key, number), at in self.places.items():
            data = self.units[key][1].sections[number].data
            self.code[at:at + len(data)] = data
        for name, number in self.jumps.items():
            at = self.first_jump + _JUMP_SIZE * number
            self.code[at:at + 6] = _JUMP + struct.pack("<i", self._word_at(name) - (at + 6))
        for word, number in self.table.items():
            at = self.first_word + 8 * number
            if isinstance(word, str):
                self.outside.append((at, word))
            else:
                key, section, value = word
                self.inside.append((at, self._offset(key, _Symbol("", section, value, False))))
        for key, section, offset, kind, symbol, addend, home in references:
            self._relocate(self.places[key, section] + offset, kind, symbol, addend, home)

    def _word_at(self, word: Any) -> int:
        return self.first_word + 8 * self.table[word]

    def _relocate(self, at: int, kind: int, symbol: _Symbol, addend: int, home: tuple[int, _Symbol] | None) -> None:
        if kind == _ABSOLUTE and home is not None:
            self.inside.append((at, self._offset(*home) + addend))
            return
        if kind == _ABSOLUTE and addend == 0:
            self.outside.append((at, symbol.name))
            return
        if kind in _BY_TABLE:
            target = self._word_at(self._word(symbol, home))
        elif home is not None:
            target = self._offset(*home)
        elif kind == _CALL:
            target = self.first_jump + _JUMP_SIZE * self.jumps[symbol.name]
        else:
            raise Unlinkable(f"a reference to {symbol.name} of type {kind}")
        if kind not in _WIDTH:
            raise Unlinkable(f"a relocation of type {kind}")
        struct.pack_into(_WIDTH[kind], self.code, at, target + addend - at)


def _aligned(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


# --- loading --------------------------------------------------------------------------------------

class Loaded:
    """Machine code in memory, which lives as long as this object."""

    def __init__(self, image: Image, resolve: Callable[[str], int]) -> None:
        """Raises ``OSError`` if the system has no pages for it, or does not allow code in them."""
        self._pages = mmap.mmap(-1, max(1, image.size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self._names = image.names
        self._pages[:len(image.code)] = image.code
        put = struct.Struct("<Q").pack_into
        for at, name in image.outside:
            put(self._pages, at, resolve(name))
        for at, offset in image.inside:
            put(self._pages, at, self._start + offset)
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        if protect(ctypes.c_void_p(self._start), ctypes.c_size_t(image.fixed), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "mprotect")

    def address(self, name: str) -> int:
        """The address of an exported function."""
        return self._start + self._names[name]
