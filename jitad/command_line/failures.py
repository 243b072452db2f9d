"""The error of a command, of which only the message is printed."""

from __future__ import annotations

from ..errors import JitadError


class Refused(JitadError):
    """Input that a command cannot take: lines of the form ``file:line: message``."""
