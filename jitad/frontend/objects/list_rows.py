"""Lists in lists of run-time length: ``t[i]`` of a list of lists is a row of one array, read and written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...ir.graph import Value
from ...ir.types import dtype_of
from ..columns.list_columns import Columns, Kind
from ..values.closures import BoundMethod
from ..values.growing import Growing, NeedRows
from ..values.lattice import describe
from ..values.protocol import Trace
from ..values.values import ELEMENT, SHARED, Choice, ListObj, Sym
from . import containers
from .list_elements import (
    LENGTHS,
    contents,
    fitting,
    flat,
    freeze,
    freeze_object,
    grown,
    is_table,
    joined,
    table_of,
)
from .long_lists import LongList, RunTimeList, place_among

ONE_LENGTH = "a list of lists of one length; or an array for all, with the length of each list in another one"


class Row(RunTimeList):
    """The list at some places of a list of lists: ``of[i]``, or ``of[i][j]`` where that is a list.

    ``version``: that of the contents of ``of`` when the row was taken.  Once a list in ``of`` has been replaced or
    moved, another list may be at this place.
    """

    __slots__ = ("of", "version", "places")

    def __init__(self, of: ListObj, version: Any, places: tuple[Sym, ...]) -> None:
        self.of, self.version, self.places = of, version, places

    @property
    def static(self) -> int:
        return len(self.places)

    def parts(self) -> tuple[Any, ...]:
        return (self.of, self.version, *self.places)

    def with_parts(self, parts: tuple[Any, ...]) -> Row:
        return Row(parts[0], parts[1], parts[2:])

    def describe(self) -> str:
        return "a list in a list of run-time length"

    # --- reading ------------------------------------------------------------------------------------

    def content(self, t: Trace) -> Growing:
        """The present contents of the list of lists."""
        found = contents(t, self.of)
        if found is None or not _same_number(found.version, self.version):
            t.unsupported("uses a list that was taken out of a list of lists, in which lists have been replaced or "
                          "moved since", "take it out again, `row = rows[i]`; or use a copy, `rows[i][:]`")
        return found

    def kind(self, content: Growing) -> Kind:
        kind: Kind = content.kind
        for _ in self.places:
            kind = kind.element.static
        return kind

    def array(self, t: Trace) -> Sym:
        return Sym(t.builder.get(self.content(t).columns[0].value, *_values(self.places)))

    def elements(self, t: Trace) -> LongList:
        """The present elements, as an immutable list."""
        content = self.content(t)
        if is_table(self.kind(content)):
            freeze_object(t, self.of, SHARED)
        return LongList(self.kind(content), [t.new_array(self.array(t), ELEMENT)])

    def count(self, t: Trace) -> Any:
        return Sym(t.builder.dim(self.content(t).columns[0].value, axis=len(self.places)), True)

    def element(self, t: Trace, it: Any) -> Any:
        content = self.content(t)
        kind, places = self.kind(content), (*self.places, t.sym(it))
        if is_table(kind):
            return Row(self.of, self.version, places)
        return Sym(t.builder.get(content.columns[0].value, *_values(places)), kind.cells[0].weak)

    def item(self, t: Trace, index: Any) -> Any:
        if isinstance(index, slice):
            return t.call(list, self.elements(t).item(t, index))
        return self.element(t, self.place_of(t, index, "list index out of range"))

    def place_of(self, t: Trace, index: Any, message: str) -> Sym:
        return place_among(t, self.count(t), index, message)

    # --- writing ------------------------------------------------------------------------------------

    def set(self, t: Trace, index: Any, new: Any) -> None:
        """``self[index] = new``."""
        content = self._writable(t)
        if isinstance(index, slice):
            self.refused(t, "assigns to a slice of")
        if isinstance(new, Row):
            refuse_row(t)
        new = t.settle(new) if type(new) is Choice else new
        found = flat(t, new)
        if found is not None and is_table(self.kind(content)) and not is_table(found[1]) \
                and t.session.rows < NeedRows.MOST:
            raise NeedRows
        row = None if found is None else joined([self.kind(content), found[1]], True)
        if found is None or row is None:
            t.unsupported(f"puts {describe(new)} into {self.describe()}", "numbers, in each of the lists")
        places = (*self.places, self.place_of(t, index, "list assignment index out of range"))
        content = grown(t, content, _with_rows(content.kind, len(self.places), row))
        column = content.columns[0].value
        if is_table(row):
            freeze(t, new)
            value, version = fitting(t, found[0][0], column, len(places), LENGTHS), later(t, content.version)
        else:
            value, version = t.value(found[0][0], dtype_of(column.type)), content.version
        column = t.builder.set(column, value, *_values(places))
        t.state[self.of] = Growing(content.kind, content.length, (Sym(column),), version)

    def _writable(self, t: Trace) -> Growing:
        containers.writable(t, self.of, "a list")
        return self.content(t)

    def refused(self, t: Trace, what: str) -> Any:
        return t.unsupported(f"{what} {self.describe()}", ONE_LENGTH)

    # --- queries of the trace -----------------------------------------------------------------------

    def compare(self, t: Trace, op: str, other: Any) -> Any:
        if op in ("is", "is not"):
            if isinstance(other, (Row, ListObj)):
                t.unsupported("`is` between lists in lists of run-time length", "compare their places")
            return op == "is not"
        return t.compare(op, self.elements(t), t.settled_list(other))

    def method(self, t: Trace, name: str) -> Any:
        if name not in METHODS:
            self.refused(t, f"the method `{name}` of")
        return BoundMethod(METHODS[name], self)

    def plain(self, t: Trace) -> Any:
        return self.array(t)

    def exported(self, t: Trace) -> Columns:
        return Columns(self.kind(self.content(t)), [t.new_array(self.array(t), ELEMENT)])


def _with_rows(table: Kind, depth: int, row: Kind) -> Kind:
    """The kind of a list of lists whose lists at a depth are of another kind."""
    return row if depth == 0 else table_of(_with_rows(table.element.static, depth - 1, row), table.cells[0].ones)


def refuse_row(t: Trace) -> NoReturn:
    t.unsupported("puts a list that is in a list of lists into another place, so that both would be one list",
                  "a copy, `rows[i][:]`; to exchange two, `rows[i], rows[j] = rows[j], rows[i]`")


def later(t: Trace, version: Any) -> Any:
    return version + 1 if isinstance(version, int) else Sym(t.builder.add(version.value, 1), True)


def _values(places: tuple[Sym, ...]) -> tuple[Value, ...]:
    return tuple(p.value for p in places)


def _same_number(x: Any, y: Any) -> bool:
    """True if two integers are known to be equal."""
    if isinstance(x, Sym) and isinstance(y, Sym):
        return x.value is y.value
    return isinstance(x, int) and isinstance(y, int) and x == y


# --- methods, which are traced ----------------------------------------------------------------------

def _copy(xs: Any) -> Any:
    return list(xs)


def _sort(xs: Any, *, key: Any = None, reverse: bool = False) -> None:
    for i, x in enumerate(sorted(xs, key=key, reverse=reverse)):
        xs[i] = x


def _reverse(xs: Any) -> None:
    for i, x in enumerate(xs[::-1]):
        xs[i] = x


def _index(xs: Any, x: Any, start: int = 0) -> Any:
    for i in range(start, len(xs)):
        if xs[i] == x:
            return i
    raise ValueError(f"{x} is not in list")


def _count(xs: Any, x: Any) -> Any:
    n = 0
    for y in xs:
        if y == x:
            n += 1
    return n


METHODS: dict[str, Callable[..., Any]] = {
    "copy": _copy, "sort": _sort, "reverse": _reverse, "index": _index, "count": _count}
