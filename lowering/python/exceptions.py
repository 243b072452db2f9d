"""Makes Python exceptions, with the user's line in the traceback, from the statuses that compiled code returns."""

from __future__ import annotations

import ast
import struct
from types import FunctionType
from typing import Any

from ...errors import CompileError, Loc
from ...ir.evaluate.interp import exception
from ...ir.graph import ExcInfo, Module
from ...ir.types import Scalar, Type
from ..llvm import context


class Failures:
    """The exceptions that the functions of one module can raise.

    An instance is called with a status and the four words that were stored in the context.  ``long``: a call has
    returned ``context.LONG``.
    """

    long = False

    def __init__(self, module: Module) -> None:
        self.exceptions: list[ExcInfo] = list(module.exceptions)
        self.shortages: list[ExcInfo] = module.shortages         # lowering adds to them
        self.operands: dict[int, list[Type]] = {}        # exception number → types of the message's operands
        for func in module.functions.values():
            for op in func.all_ops():
                if op.name in ("check", "raise"):
                    self.operands[op.attrs["exc"]] = [v.type for v in op.operands[1 if op.name == "check" else 0:]]

    @classmethod
    def restored(cls, exceptions: list[ExcInfo], shortages: list[ExcInfo], operands: dict[int, list[Type]]) -> Failures:
        """The same from its attributes."""
        made = cls.__new__(cls)
        made.exceptions, made.shortages, made.operands = exceptions, shortages, operands
        return made

    def __call__(self, status: int, *words: int) -> BaseException:
        if status == context.LONG:
            self.long = True
            return CompileError("a loop runs for longer than this code was compiled for")
        if status in context.SHORTAGES:
            kind, message = context.SHORTAGES[status]
            return exception(ExcInfo(kind, message))
        if status == context.INTERRUPT:
            return KeyboardInterrupt()
        number = status - 1
        known = self.exceptions if number < len(self.exceptions) else [*self.exceptions, *self.shortages]
        if not 0 <= number < len(known):
            return CompileError(f"compiled code returned the status {status}, which means nothing")
        info = known[number]
        values = [decode(word, t) for word, t in zip(words, self.operands.get(number, []))]
        return located(exception(info, values), info.loc, info.calls)


def decode(word: int, t: Type) -> float | int | bool:
    """The scalar of type ``t`` in a word of the context: floats are f64, integers and bools are extended."""
    assert isinstance(t, Scalar)
    if t.is_float:
        return float(struct.unpack("<d", struct.pack("<q", word))[0])
    return bool(word) if t.is_bool else word if t.is_signed else word % (1 << 64)


def located(error: BaseException, loc: Loc, calls: tuple[Loc, ...] = ()) -> BaseException:
    """``error`` with a traceback through the user's ``calls`` that ends at the user's line.

    The traceback is real: code compiled under the user's file names and lines is run, and its exception is caught.
    """
    if not loc.line:
        return error
    run = _at(loc, "raise __next__", error)
    own = calls[:-1] if calls[-1:] == (loc,) else calls      # library code raises at the line of the call to it
    for call in reversed(own):
        run = _at(call, "__next__()", run)
    try:
        run()
    except BaseException as caught:
        assert caught.__traceback__ is not None
        return caught.with_traceback(caught.__traceback__.tb_next)
    raise AssertionError("raise did not raise")


def _at(loc: Loc, statement: str, following: Any) -> FunctionType:
    """A function that runs a statement on ``__next__`` at a location in the user's source."""
    tree = ast.parse(statement)
    for node in ast.walk(tree):                          # Python's carets show the columns
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = loc.line
            node.col_offset, node.end_col_offset = loc.col, max(loc.end_col, loc.col + 1)
    code = compile(tree, loc.file, "exec").replace(co_name=loc.function or "<compiled>")
    return FunctionType(code, {"__next__": following})
