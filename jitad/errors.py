"""Exceptions, and the source locations that their messages show.

An error that a user can meet while tracing, checking or compiling states the problem, its location (the user's file and
line, with a caret), the reason, and an alternative.  Run-time errors are Python's own exceptions.
"""

from __future__ import annotations

import linecache
import os
import time
from dataclasses import dataclass
from types import TracebackType

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of jitad's own Python code: an error there is reported at the user's call."""
LOADED = time.time()
"""When this process loaded jitad: files that are written later may not be what Python has compiled."""


@dataclass(frozen=True)
class Loc:
    """A location in the user's source: ``file``, ``line`` from 1, ``col`` and ``end_col`` from 0 (in bytes)."""

    file: str = "<unknown>"
    line: int = 0
    col: int = 0
    end_col: int = 0
    function: str = ""

    def excerpt(self) -> str:
        """The source line with a caret under the construct, or ``""`` if the source cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        first, end = (len(text.encode()[:col].decode(errors="ignore")) for col in (self.col, self.end_col))
        indent = len(text) - len(text.lstrip())
        carets = " " * max(0, first - indent) + "^" * max(1, end - first)
        return f"    {text.strip()}\n    {carets}"

    def shown(self) -> str:
        """The location and its source line, as in a traceback."""
        where = f"  File \"{self.file}\", line {self.line}" + (f", in {self.function}" if self.function else "")
        excerpt = self.excerpt()
        return f"{where}\n{excerpt}" if excerpt else where

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = Loc()


def switched_on(variable: str, default: bool = False) -> bool:
    """True if an environment variable is on, ``default`` if it is not set or empty.

    Raises ``ValueError`` if it is neither on nor off.
    """
    told = os.environ.get(variable, "").strip().lower()
    if told in ("1", "on", "true", "yes"):
        return True
    if told in ("0", "off", "false", "no"):
        return False
    if told:
        raise ValueError(f"{variable}={told}: expected 1 (on, true, yes) or 0 (off, false, no)")
    return default


class JitadError(Exception):
    """The base class of all errors that jitad raises itself.

    ``message`` states the problem and the reason, ``loc`` the location, ``hint`` an alternative; ``calls`` are the
    user's calls that led there, outermost first.
    """

    def __init__(self, message: str, loc: Loc | None = None, hint: str = "", calls: tuple[Loc, ...] = ()) -> None:
        self.message, self.loc, self.hint, self.calls = message, loc, hint, calls
        super().__init__(self._render())

    def called_at(self, loc: Loc) -> None:
        """Adds a call around those known so far."""
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
    """The first and the last of many calls, with a line in place of the others."""
    if len(calls) <= MOST_CALLS:
        return list(calls)
    half = MOST_CALLS // 2
    return [*calls[:half], f"  … {len(calls) - 2 * half} calls more", *calls[-half:]]


def _keeps_frames() -> bool:
    """True if ``JITAD_DEBUG`` is on, or no word for a switch: compilation refuses that, and no error is lost here."""
    try:
        return switched_on("JITAD_DEBUG")
    except ValueError:
        return True


def shown(error: BaseException) -> TracebackType | None:
    """The traceback of ``error`` for the user, without jitad's own frames if the error reports its location itself.

    Failures of the compiler keep all frames; with ``JITAD_DEBUG=1`` every error does.
    """
    frames = []
    tb = error.__traceback__
    while tb is not None:
        frames.append(tb)
        tb = tb.tb_next
    users = [tb for tb in frames if not _is_own(tb)]
    told = isinstance(error, JitadError) or hasattr(error, "__notes__") or users[-1:] == frames[-1:]
    if not told or isinstance(error, CompileError) or _keeps_frames():
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
    """Marks an error of a program that was traced with long lists as columns: without columns it may succeed."""
    setattr(error, _COLUMNS, True)


def with_columns(error: BaseException) -> bool:
    """True if ``took_columns`` has marked the error."""
    return hasattr(error, _COLUMNS)


class TypeInferenceError(JitadError):
    """A value whose type cannot be inferred, or operands with incompatible types."""


class ShapeError(JitadError, ValueError):
    """Incompatible array ranks or sizes: a ``ValueError``, as in NumPy."""


class DifferentiationError(JitadError, TypeError):
    """Something without a derivative, or a wrong request for a derivative: a ``TypeError``, as in JAX."""


class CompileError(JitadError):
    """An internal failure of a pass or of LLVM; always a bug worth reporting."""


class DeviceError(JitadError):
    """No GPU driver, no device, or a launch that failed."""


class NondifferentiableWarning(UserWarning):
    """A derivative was evaluated exactly where a primitive or a branch has none (``debug_nondifferentiable``)."""
