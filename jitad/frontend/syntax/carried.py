"""Source text of functions that came from another process, where their file may be missing or another one."""

from __future__ import annotations

import linecache
import types
import weakref

_lines: dict[int, list[str]] = {}                   # of live code objects, by ``id``


def lines(code: types.CodeType) -> list[str] | None:
    """The lines that came with a code object, blank outside of its statement; None for code of this process."""
    return _lines.get(id(code))


def keep(code: types.CodeType, first: int, text: str) -> None:
    """Keeps the text of the statement around ``code``, and of functions inside, while they live.

    ``first`` is the number of its first line.  The text can be parsed though it is indented.  Tracebacks show it if
    there is no file of that name.
    """
    shown = ["\n"] * (first - 1) + text.splitlines(keepends=True)
    known = [*shown[:first - 2], "if 1:\n", *shown[first - 1:]] if text[0].isspace() else shown
    todo = [code]
    while todo:
        now = todo.pop()
        if id(now) not in _lines:
            weakref.finalize(now, _lines.pop, id(now), None).atexit = False
        _lines[id(now)] = known
        todo += [c for c in now.co_consts if isinstance(c, types.CodeType)]
    _show(code.co_filename, shown)


def _show(file: str, known: list[str]) -> None:
    """Makes ``linecache`` show these lines beside those that came before, unless it has a file of that name."""
    ours = is_shown(file)
    if not ours and linecache.getlines(file):
        return
    before = linecache.getlines(file) if ours else []
    shown = [new if new.strip() else old for old, new in zip(_padded(before, len(known)), _padded(known, len(before)))]
    linecache.cache[file] = sum(map(len, shown)), None, shown, _MARK + file


_MARK = "from another process: "


def is_shown(file: str) -> bool:
    """True if ``linecache`` has lines of this name from another process, not those of a file of this one."""
    entry = linecache.cache.get(file)
    return entry is not None and entry[-1] == _MARK + file


def _padded(known: list[str], length: int) -> list[str]:
    return known + ["\n"] * (length - len(known))
