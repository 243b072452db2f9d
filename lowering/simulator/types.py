"""Types in the text of LLVM IR: where they end, and how many bytes they have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...errors import CompileError

_NAMED = re.compile(r'%("[^"]*"|[\w.$-]+) = type (.*)')
_PLAIN = re.compile(r'void|i\d+|half|bfloat|float|double|ptr(?: addrspace\(\d+\))?|%(?:"[^"]*"|[\w.$-]+)')
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8}
_OPEN, _CLOSE = "([{<", ")]}>"


def operand_end(text: str, start: int, stop: str = ",") -> int:
    """The index of the first character of ``stop`` that is not in brackets or quotes, or the text's length."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        c = text[i]
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in stop and depth == 0:
            return i
        elif c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            depth -= 1
        elif c == ";" and depth == 0:                        # a comment
            return i
    return len(text)


def split(text: str) -> list[str]:
    """The parts of a list with commas."""
    parts, start = [], 0
    while start < len(text):
        end = operand_end(text, start)
        parts.append(text[start:end].strip())
        if end < len(text) and text[end] == ";":
            break
        start = end + 1
    return [p for p in parts if p]


class Types:
    """The types of a module, some of which have names."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._named = {m[1]: m[2] for line in lines if (m := _NAMED.match(line))}

    def first(self, text: str) -> str:
        """The type at the beginning of the text, without attributes that precede it."""
        text = text.strip()
        if text[:1] in ("[", "{", "<"):
            return text[:operand_end(text, 1, "]" if text[0] == "[" else "}" if text[0] == "{" else ">") + 1]
        found = _PLAIN.search(text)
        if found is None:
            raise CompileError(f"the simulator does not know this type of LLVM's: {text}")
        return found[0]

    def size(self, of: str) -> int:
        """The number of bytes in memory."""
        return self._layout(of)[0]

    def _layout(self, of: str) -> tuple[int, int]:
        """Size and alignment."""
        if of.startswith("%"):
            return self._layout(self._named[of[1:]])
        if of.startswith("<{"):
            return sum(self.size(self.first(p)) for p in split(of[2:-2])), 1
        if of[0] == "{":
            return self._struct([self._layout(self.first(p)) for p in split(of[1:-1])])
        if of[0] in "[<":
            count, _, element = of[1:-1].partition(" x ")
            size, align = self._layout(element.strip())
            if of[0] == "<" and element.strip() == "i1":
                size = -(-int(count) // 8)
                return size, size
            return int(count) * size, align if of[0] == "[" else int(count) * size
        if of.startswith("i"):
            size = 1 << max(0, int(of[1:]) - 1).bit_length() >> 3 or 1
            return size, size
        size = 8 if of.startswith("ptr") else _BYTES[of]
        return size, size

    @staticmethod
    def _struct(parts: list[tuple[int, int]]) -> tuple[int, int]:
        end = most = 0
        for size, align in parts:
            end = -(-end // align) * align + size
            most = max(most, align)
        return -(-end // max(most, 1)) * max(most, 1), max(most, 1)
