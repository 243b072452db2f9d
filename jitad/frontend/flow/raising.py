"""``raise`` and ``assert``: the parts of an exception are recorded; it is constructed when it is raised."""

from __future__ import annotations

import builtins
import inspect
import string
from collections.abc import Sequence
from typing import Any

from ...errors import Loc
from ...ir.graph import ExcInfo, Filled, Operand
from ..objects import containers
from ..trees.references import TextOf
from ..values.closures import TEXT, Raised, Template
from ..values.code import Frame, Hook
from ..values.lattice import rebuild
from ..values.protocol import Trace
from ..values.values import Sym

MOST = 4                          # words of the context for run-time values of an exception


def assert_(f: Frame, test: Hook, message: Hook | None, loc: Loc) -> None:
    """Traces ``assert``; the message is evaluated only if the assertion fails."""
    t = f.t
    c = t.truth(test(f), loc)
    t.builder.loc = loc
    if c is True:
        return

    def fail() -> None:
        _raise(f, Raised(AssertionError, *([message(f)] if message else [])), loc)
    if c is False:
        return fail()
    if message is None:
        exc = t.module.exception(ExcInfo("AssertionError", None, loc))
        return t.builder.check(c.value, exc)
    t.branch(c.value, lambda: None, fail, None)


def raise_(f: Frame, exc: Hook, loc: Loc) -> None:
    _raise(f, exc(f), loc)


def _raise(f: Frame, exc: Any, loc: Loc) -> None:
    t = f.t
    t.builder.loc = loc
    c = t.first_choice((exc, *(exc.parts() if isinstance(exc, Raised) else ())))
    if c is not None:
        return t.dispatch(c, lambda v: _raise(f, _settled(t, exc), loc), None)
    if isinstance(exc, BaseException):
        exc = Raised(type(exc), *exc.args)
    elif isinstance(exc, type) and issubclass(exc, BaseException):
        exc = Raised(exc)
    if not isinstance(exc, Raised):
        raise TypeError("exceptions must derive from BaseException")
    builtin = getattr(builtins, exc.cls.__name__, None) is exc.cls
    kind, cls = (exc.cls.__name__, None) if builtin else ("", exc.cls)
    args = exc.parts()
    if not args:
        t.raise_info(ExcInfo(kind, None, loc, cls))
    if len(args) == 1 and isinstance(args[0], Template):
        words = args[0].parts()
        if len(words) > MOST:
            t.unsupported(f"a message takes at most {MOST} numbers that are known at run time only",
                          "leave further values out")
        t.raise_info(ExcInfo(kind, args[0].text, loc, cls, texts=_texts(words)), *map(_word, words))
    if len(args) == 1 and isinstance(args[0], str):
        t.raise_info(ExcInfo(kind, escape(args[0]), loc, cls))
    operands: list[Sym | TextOf] = []
    recorded = tuple([_argument(t, containers.plain(t, a), operands) for a in args])
    if len(operands) > MOST:
        t.unsupported(f"an exception takes at most {MOST} numbers that are known at run time only",
                      "leave further values out")
    t.raise_info(ExcInfo(kind, None, loc, cls, recorded, _texts(operands)), *map(_word, operands))


def _settled(t: Trace, exc: Any) -> Any:
    exc = t.settle(exc)
    return exc.with_parts(tuple(map(t.settled, exc.parts()))) if isinstance(exc, Raised) else exc


def _texts(words: Sequence[Sym | TextOf]) -> tuple[int, ...]:
    """The positions of the strings among the run-time values."""
    return tuple([k for k, v in enumerate(words) if isinstance(v, TextOf)])


def _word(v: Sym | TextOf) -> Sym:
    found: Sym = v.index if isinstance(v, TextOf) else v
    return found


def _argument(t: Trace, v: Any, operands: list[Sym | TextOf]) -> Any:
    """An argument of an exception: known values as they are, run-time numbers and strings as ``Operand`` fields."""
    if isinstance(v, TextOf) or isinstance(v, Sym) and not v.is_array:
        return Operand(_number(v, operands))
    if isinstance(v, Template):
        return Filled(_numbered(v.text, [_number(x, operands) for x in v.parts()]))
    if isinstance(v, list):
        return [_argument(t, x, operands) for x in v]
    if isinstance(v, tuple):
        return rebuild(v, tuple([_argument(t, x, operands) for x in v]))
    if not containers.is_static(v):
        t.unsupported(f"{containers.describe(v)} in an exception", "pass numbers and strings")
    return v


def _number(v: Sym | TextOf, operands: list[Sym | TextOf]) -> int:
    """The index of an operand in ``operands``, which is appended if it is new."""
    for k, known in enumerate(operands):
        if type(known) is type(v) and _word(known).value is _word(v).value:
            return k
    operands.append(v)
    return len(operands) - 1


def _numbered(text: str, places: list[int]) -> str:
    """A ``str.format`` template whose fields refer to these operands, in order."""
    fields = iter(places)
    out = ""
    for before, name, spec, conversion in string.Formatter().parse(text):
        out += escape(before)
        if name is not None:
            how = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            out += f"{{{next(fields)}{how}}}"
    return out


def make(t: Trace, cls: type[BaseException], args: list[Any], kwargs: dict[str, Any]) -> Raised:
    """An exception object of the trace; keyword arguments are converted to positional ones."""
    if kwargs:
        try:
            bound = inspect.signature(cls).bind(*args, **kwargs)
        except ValueError:
            t.unsupported(f"keyword arguments of {cls.__name__}", "pass them by position")
        if bound.kwargs:
            t.unsupported(f"keyword-only arguments of {cls.__name__}", "pass them by position")
        args = list(bound.args)
    return Raised(cls, *args)


def escape(text: str) -> str:
    """The text escaped for a ``str.format`` template."""
    return text.replace("{", "{{").replace("}", "}}")


def joined(t: Trace, op: str, x: Any, y: Any) -> Template | None:
    """``x op y`` for strings that contain run-time values; None if Python refuses the operation too."""
    x, y = (Template("{}", v) if isinstance(v, TextOf) else v for v in (x, y))
    if op == "add" and isinstance(x, (str, Template)) and isinstance(y, (str, Template)):
        parts = [p for v in (x, y) if isinstance(v, Template) for p in v.parts()]
        return Template("".join(v.text if isinstance(v, Template) else escape(v) for v in (x, y)), *parts)
    if op in ("mul", "mod"):
        t.unsupported("a string made from values that are only known at run time", TEXT)
    return None
