"""From the status that compiled code returns to the Python exception that it stands for, with the user's line in its
traceback."""

from __future__ import annotations

import ast
import struct
from types import TracebackType

from ..errors import CompileError, Loc
from ..ir.graph import ExcInfo, Module
from ..ir.interp import exception
from ..ir.types import Scalar, Type
from . import context


class Failures:
    """What the functions of one module can raise.  Called with a status and the four words left in the context."""

    def __init__(self, module: Module) -> None:
        self.exceptions: list[ExcInfo] = list(module.exceptions)
        self.shortages: list[ExcInfo] = module.shortages         # lowering adds to them
        self.operands: dict[int, list[Type]] = {}        # by exception: the types of the message's operands
        for func in module.functions.values():
            for op in func.all_ops():
                if op.name in ("check", "raise"):
                    self.operands[op.attrs["exc"]] = [v.type for v in op.operands[1 if op.name == "check" else 0:]]

    def __call__(self, status: int, *words: int) -> BaseException:
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
        return located(exception(info, values), info.loc)


def decode(word: int, t: Type) -> float | int | bool:
    """The scalar of type ``t`` that a word of the context holds: floats as f64, integers and bools extended."""
    assert isinstance(t, Scalar)
    if t.is_float:
        return float(struct.unpack("<d", struct.pack("<q", word))[0])
    return bool(word) if t.is_bool else word if t.is_signed else word % (1 << 64)


def located(error: BaseException, loc: Loc) -> BaseException:
    """``error`` with a traceback that ends at the user's line.

    The traceback is a real one: a ``raise`` compiled under the user's file name, at the user's line, is run and caught.
    """
    if not loc.line:
        return error
    tree = ast.parse("raise __error__")
    for node in ast.walk(tree):                          # the columns are what Python's carets show
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = loc.line
            node.col_offset, node.end_col_offset = loc.col, max(loc.end_col, loc.col + 1)
    code = compile(tree, loc.file, "exec").replace(co_name=loc.function or "<compiled>")
    try:
        exec(code, {"__error__": error})
    except BaseException as caught:
        assert caught.__traceback__ is not None
        return caught.with_traceback(_last(caught.__traceback__))
    raise AssertionError("raise did not raise")


def _last(traceback: TracebackType) -> TracebackType:
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback
