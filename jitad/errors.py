"""Exceptions, and the source positions that their messages show.

Every error a user can meet while tracing, checking or compiling says what is wrong, where (their
file, their line, a caret), why, and how to write it instead.  Run-time errors are Python's own.
"""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from types import TracebackType

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of jitad's own Python: an error there is reported where the user's code calls it."""


@dataclass(frozen=True)
class Loc:
    """A place in the user's source: ``file``, ``line`` from 1, ``col`` and ``end_col`` from 0 (in bytes)."""

    file: str = "<unknown>"
    line: int = 0
    col: int = 0
    end_col: int = 0
    function: str = ""

    def excerpt(self) -> str:
        """The source line with a caret under the construct, or ``""`` when it cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        first, end = (len(text.encode()[:col].decode(errors="ignore")) for col in (self.col, self.end_col))
        indent = len(text) - len(text.lstrip())
        carets = " " * max(0, first - indent) + "^" * max(1, end - first)
        return f"    {text.strip()}\n    {carets}"

    def shown(self) -> str:
        """The place and its source line, as in a traceback."""
        where = f"  File \"{self.file}\", line {self.line}" + (f", in {self.function}" if self.function else "")
        excerpt = self.excerpt()
        return f"{where}\n{excerpt}" if excerpt else where

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Loc()


class JitadError(Exception):
    """The base of every error that jitad itself raises.

    ``message`` says what and why, ``loc`` where, ``hint`` how to write it instead; ``calls`` are the user's calls that
    led there, the outermost first.
    """

    def __init__(self, message: str, loc: Loc | None = None, hint: str = "", calls: tuple[Loc, ...] = ()) -> None:
        self.message, self.loc, self.hint, self.calls = message, loc, hint, calls
        super().__init__(self._render())

    def called_at(self, loc: Loc) -> None:
        """Note the call around those known so far."""
        if self.loc is not None and self.loc.line and loc.line:
            self.calls = (loc, *self.calls)
            self.args = (self._render(),)

    def _render(self) -> str:
        parts = [self.message]
        if self.loc is not None and self.loc.line:
            parts += [loc if isinstance(loc, str) else loc.shown() for loc in shortened(self.calls)]
            parts.append(self.loc.shown())
        if self.hint:
            parts.append(f"  Instead: {self.hint}")
        return "\n".join(parts)


MOST_CALLS = 12


def shortened(calls: tuple[Loc, ...]) -> list[Loc | str]:
    """Of many calls, the first and the last, and a line that stands for the others."""
    if len(calls) <= MOST_CALLS:
        return list(calls)
    half = MOST_CALLS // 2
    return [*calls[:half], f"  … {len(calls) - 2 * half} calls more", *calls[-half:]]


def shown(error: BaseException) -> TracebackType | None:
    """The traceback of ``error`` for the user: an error that says itself where it is from has no frames of jitad's.

    Failures of the compiler keep theirs, and so does everything under ``JITAD_DEBUG=1``.
    """
    frames = []
    tb = error.__traceback__
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    users = [tb for tb in frames if not _is_own(tb)]
    told = isinstance(error, JitadError) or hasattr(error, "__notes__") or users[-1:] == frames[-1:]
    if not told or isinstance(error, CompileError) or os.environ.get("JITAD_DEBUG") == "1":
        return error.__traceback__
    for tb, following in zip(users, [*users[1:], None]):
        tb.tb_next = following
    return users[0] if users else None


def _is_own(tb: TracebackType) -> bool:
    return str(tb.tb_frame.f_globals.get("__name__")).split(".")[0] == "jitad"


class UnsupportedError(JitadError):
    """A construct of Python or NumPy that jitad does not compile."""


_COLUMNS = "_jitad_columns"


def took_columns(error: BaseException) -> None:
    """Note that the program was traced with long lists as columns: element by element it may be right."""
    setattr(error, _COLUMNS, True)


def with_columns(error: BaseException) -> bool:
    """Whether ``took_columns`` has noted that."""
    return hasattr(error, _COLUMNS)


class TypeInferenceError(JitadError):
    """A value whose type cannot be found, or operands whose types do not go together."""


class ShapeError(JitadError, ValueError):
    """Array ranks or sizes that do not go together: a ``ValueError``, as in NumPy."""


class DifferentiationError(JitadError, TypeError):
    """Something that has no derivative, or whose derivative was asked for wrongly: a ``TypeError``, as in JAX."""


class CompileError(JitadError):
    """An internal failure of a pass or of LLVM; always a bug worth reporting."""


class DeviceError(JitadError):
    """No GPU driver, no device, no OpenMP runtime, or a launch that failed."""


class NondifferentiableWarning(UserWarning):
    """A derivative was evaluated exactly where a primitive, or a branch, has none (``debug_nondifferentiable``)."""
