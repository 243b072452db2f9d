"""The tokens of the text form, and errors that point into it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ...errors import CompileError, Loc

_TOKEN = re.compile(r"""
    (?P<skip>   (?:\s+|;[^\n]*)+ )
  | (?P<value>  %[\w.]+ )
  | (?P<block>  \^[\w.]+ )
  | (?P<glob>   @(?:[\w.$<>]+|"(?:[^"\\\n]|\\.)*") )
  | (?P<arrow>  -> )
  | (?P<number> -?\d+(?:\.\d*)?(?:e[+-]?\d+)?\b | -inf\b )
  | (?P<word>   [A-Za-z_][\w.]* )
  | (?P<string> "(?:[^"\\\n]|\\.)*" )
  | (?P<mark>   [()\[\]{},:=?] )
  | (?P<bad>    . )
""", re.VERBOSE)


class ParseError(CompileError):
    """Text that is not IR; the message shows the line with a caret."""


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    pos: int
    first: bool = False        # on its line


def _tokens(text: str) -> list[Token]:
    tokens, first = [], True
    for m in _TOKEN.finditer(text):
        if m.lastgroup == "skip":
            first = first or "\n" in m[0]
        else:
            tokens.append(Token(m.lastgroup or "", m[0], m.start(), first))
            first = False
    return [*tokens, Token("end", "end of text", len(text), True)]


class Tokens:
    """The tokens of a text, read in order."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.tokens = _tokens(text)
        self.at = 0
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume a mark or word if it is next.  Returns True if so."""
        if self.now.text == text and self.now.kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.now.text!r}")

    def take(self, kind: str, what: str) -> Token:
        if self.now.kind != kind:
            self.fail(f"expected {what}, found {self.now.text!r}")
        return self.next()

    def loc(self, token: Token) -> Loc:
        line = bisect_right(self._lines, token.pos)
        col = token.pos - self._lines[line - 1]
        return Loc(self.file, line, col, col + len(token.text))

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        token = token or self.now
        loc = self.loc(token)
        start = self._lines[loc.line - 1]
        line = self.text[start:].split("\n", 1)[0]
        caret = " " * loc.col + "^" * max(1, len(token.text) if token.kind != "end" else 1)
        raise ParseError(f"{self.file or '<ir>'}:{loc.line}: {message}\n    {line}\n    {caret}")

    def list(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Items separated by commas, up to ``close`` (the opening mark has been read)."""
        items: list[Any] = []
        while not self.accept(close):
            if items:
                self.expect(",")
                if self.accept(close):
                    break
            items.append(item())
        return items
