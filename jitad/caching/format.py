"""Compiled code as bytes, for another process, and back.

The bytes are a pickle of tuples: first the references (``references``), then what refers to them.  Machine code refers
to objects and memory of the process by symbols (``lowering.llvm.capi``); an entry says for each what it stands for.
"""

from __future__ import annotations

import ctypes
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..calling.compiled import Compiled, Portable, Program, Prototype, Shape
from ..calling.signature import Signature, Static
from ..frontend.captured.contents import Same
from ..frontend.captured.guards import Guard
from ..frontend.captured.leaves import Leaf, Opened
from ..frontend.captured.places import MISSING, Place
from ..frontend.captured.user_classes import trusted
from ..frontend.columns.layouts import Root
from ..frontend.columns.list_columns import Kind
from ..frontend.columns.list_columns import kind as kind_of_list
from ..ir.strings import strings
from ..ir.types import Array, Scalar, parse
from ..lowering.jit.image import Image, Loaded, Unlinkable, link
from ..lowering.llvm import capi
from ..lowering.python.entry import Entry
from ..lowering.python.hints import FACTS, Hints
from ..pytree import Structure
from . import libraries
from .references import Unnameable, Writer
from .resolution import Objects, Stale

if TYPE_CHECKING:
    from ..lowering.python.exceptions import Failures

_PROTOCOL = 5
_KEPT_BY_REFERENCE = frozenset(("function", "type", "module", "builtin_function_or_method", "ufunc", "Jit"))


class _Refer:
    """Pickled as a reference to its object."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj


# --- writing --------------------------------------------------------------------------------------

def to_bytes(compiled: Compiled, portable: Portable, root: Any) -> bytes:
    """The entry for a compiled program; raises ``Unnameable`` if another process could not use it."""
    program = compiled.program
    writer = Writer(root, compiled.signature, program.leaves, program.guards)
    try:
        image = link(portable.unit, portable.names)
    except Unlinkable as e:
        raise Unnameable(str(e)) from None
    memory = _labels(portable.entries)
    symbols = {name: _stands_for(name, compiled, portable, memory) for _, name in image.outside}
    shapes = {id(entry): shape for shape, entry in compiled.entries.items()}
    failures: Any = compiled.failures
    errors = _pickled((failures.exceptions, failures.shortages, failures.operands), writer)
    body = (list(strings.all), tuple(compiled.function), compiled.result, compiled.fixed, compiled.effort,
            compiled.flush, compiled.recursive, errors, list(program.captured), list(program.captured_leaves),
            list(program.guards), tuple(image), symbols,
            [(e.name, shapes.get(id(e)), _hints(e.hints)) for e in portable.entries])
    data = _pickled(body, writer)                         # adds references
    return pickle.dumps((writer.references, writer.digests, data), _PROTOCOL)


def _labels(entries: Sequence[Entry]) -> dict[int, tuple[Any, ...]]:
    """Labels of the objects at the addresses of memory that the code of entries refers to."""
    found: dict[int, tuple[Any, ...]] = {}
    for number, entry in enumerate(entries):
        found[entry.mark] = "mark", number
        if entry.hints is not None:
            found[ctypes.addressof(entry.hints.words)] = "words", number
            found |= {ctypes.addressof(t): ("table", number, i) for i, t in enumerate(entry.hints.tables)}
    return found


def _stands_for(symbol: str, compiled: Compiled, portable: Portable, memory: dict[int, tuple[Any, ...]]
                ) -> tuple[Any, ...]:
    kind, _, what = symbol.partition(".")
    if kind == "mem":
        return memory[int(what, 16)]
    if kind != "obj":
        return "symbol", symbol
    obj = portable.objects[int(what, 16)]
    if obj is compiled.failures:
        return ("failures",)
    if any(obj is entry.build for entry in portable.entries):
        return ("build",)
    for i, leaf in enumerate(compiled.signature.leaves):
        if isinstance(leaf, Static) and leaf.value is obj:
            return "leaf", i
    return ("text", obj) if type(obj) is str else ("object", _Refer(obj))


def _hints(hints: Hints | None) -> Any:
    if hints is None:
        return None
    words = [[(number, _word(*word)) for number, word in row] for row in (hints.early, hints.late, hints.objects)]
    rows = [[(None if obj is None else _Refer(obj), offset) for obj, offset in row] for row in hints.rows]
    return words, rows, hints.facts, len(hints.words)


def _word(kind: str, first: Any, *rest: Any) -> tuple[Any, ...]:
    """A word of hints, in which a dict is a reference, and so is an object that is expected."""
    return (kind, _Refer(first) if type(first) is dict or kind == "itself" and first is not None else first, *rest)


def _pickled(body: Any, writer: Writer) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, writer).dump(body)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as e:
        raise Unnameable(str(e)) from None
    return file.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, writer: Writer) -> None:
        super().__init__(file, _PROTOCOL)
        self.writer = writer

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is _Refer:
            return self.writer.number(obj.obj)
        if obj is MISSING:
            return "missing"
        if isinstance(obj, type):
            return None if trusted(obj.__module__) else self.writer.number(obj)
        name = type(obj).__name__
        if name in _KEPT_BY_REFERENCE or type(obj) is Root:
            return self.writer.number(obj)
        return None

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is Place:
            base = _Refer(obj.base) if obj.kind in ("global", "cell", "object", "member") else obj.base
            return Place, (obj.kind, base, obj.key)
        if kind is Guard:
            by_reference = obj.test == "is" and obj.expected is not None and obj.expected is not MISSING
            if obj.test == "content":
                _refuse_cycles(obj.expected)
            return Guard, (obj.place, obj.test, _Refer(obj.expected) if by_reference else obj.expected)
        if kind is Scalar:
            return parse, (obj.name,)
        if kind is Array:
            return Array, (obj.dtype, obj.dims)
        if kind is Leaf:
            return Leaf, (obj.type, obj.weak)
        if kind is Kind:
            return kind_of_list, (obj.element, obj.cells, obj.counts)
        if kind is Structure:
            return Structure, (obj.type, obj.static, obj.children, obj.count)
        if kind is Same:
            return Same, (_Refer(obj.x),)
        return NotImplemented


def _refuse_cycles(content: Any) -> None:
    """Contents that hold one object twice are compared by its address."""
    if isinstance(content, tuple) and len(content) == 2 and content[0] == "seen":
        raise Unnameable("a container with an object that it holds twice")
    for part in content if isinstance(content, (tuple, list)) else ():
        _refuse_cycles(part)


# --- reading --------------------------------------------------------------------------------------

class StoredFailures:
    """The exceptions of a program from the disk; they are read when one is raised."""

    def __init__(self, data: bytes, find: Callable[[Any], Any]) -> None:
        self.data, self.find = data, find
        self._made: Failures | None = None
        self.long = False                                # see ``Failures``

    def __call__(self, status: int, *words: int) -> BaseException:
        if self._made is None:
            from ..lowering.python.exceptions import Failures
            self._made = Failures.restored(*_Unpickler(io.BytesIO(self.data), self.find).load())
        error = self._made(status, *words)
        self.long = self._made.long
        return error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, find: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self.find = find

    def persistent_load(self, number: Any) -> Any:
        return MISSING if number == "missing" else self.find(number)


def from_bytes(data: bytes, root: Any, signature: Signature, leaves: Sequence[Any]) -> Compiled:
    """The compiled program of an entry; raises ``Stale`` if it is not that of ``root`` as it is now."""
    references, digests, rest = pickle.loads(data)
    objects = Objects(references, digests, root, signature, leaves)
    (texts, function, result, fixed, effort, flush, recursive, failures, captured, captured_leaves, guards, image,
     symbols, entries) = _Unpickler(io.BytesIO(rest), objects.found.__getitem__).load()
    if [strings(text) for text in texts] != list(range(len(texts))):
        raise Stale("strings have other numbers in this process")
    program = Program(captured, captured_leaves, guards, _opened(signature, leaves))
    compiled = Compiled(signature, Prototype(*function), result, fixed, program, effort, flush, recursive,
                        StoredFailures(failures, objects.found.__getitem__))
    if compiled.captured(leaves) is None:
        raise Stale("captured state has changed")
    made = [_entry(compiled, *described) for described in entries]
    native = Loaded(Image(*image), _resolver(compiled, made, symbols, leaves))
    _finish(compiled, native, made, [shape for _, shape, _ in entries], [h for _, _, h in entries])
    compiled.kept.append(objects.found)
    return compiled


def _opened(signature: Signature, leaves: Sequence[Any]) -> list[Any]:
    """The leaves as a traced program keeps them: objects of the user's classes; others would stay in memory."""
    return [x if isinstance(leaf, Opened) else None for x, leaf in zip(leaves, signature.leaves)]


def _entry(compiled: Compiled, name: str, shape: Shape | None, hints: Any) -> Entry:
    count, keywords = (0, ()) if shape is None else (shape.count, shape.keywords)
    entry = Entry(name, compiled.function, (), count, keywords, compiled.result, compiled.effort, compiled.recursive,
                  compiled.failures, None, compiled.fixed, flush=compiled.flush)
    if hints is not None:
        words, rows, _, size = hints
        entry.guards = compiled.program.guards
        entry.hints = made = Hints(entry.guards, size)
        made.early, made.late, made.objects = words
        for row in rows:
            made.constants(row)
    return entry


def _resolver(compiled: Compiled, entries: Sequence[Entry], symbols: dict[str, tuple[Any, ...]], leaves: Sequence[Any]
              ) -> Callable[[str], int]:
    def of_entry(kind: str, number: int, i: int = 0) -> int:
        entry = entries[number]
        if kind == "mark":
            return entry.mark
        assert entry.hints is not None
        return ctypes.addressof(entry.hints.words if kind == "words" else entry.hints.tables[i])

    def resolve(symbol: str) -> int:
        kind, *what = symbols[symbol]
        if kind in ("mark", "words", "table"):
            return of_entry(kind, *what)
        if kind == "symbol":
            return libraries.address(what[0])
        obj: Any = {"failures": compiled.failures, "build": compiled.build}.get(kind, compiled)
        if obj is compiled:
            obj = leaves[what[0]] if kind == "leaf" else sys.intern(what[0]) if kind == "text" else what[0]
        compiled.kept.append(obj)
        return id(obj)

    addresses = {name: resolve(name) for name in symbols}
    if len({a for name, a in addresses.items() if name.startswith(capi.OBJECT)}) < sum(
            name.startswith(capi.OBJECT) for name in addresses):
        raise Stale("objects that were different are one")           # code takes them to be different
    return addresses.__getitem__


def _finish(compiled: Compiled, native: Any, entries: Sequence[Entry], shapes: Sequence[Shape | None],
            hints: Sequence[Any]) -> None:
    compiled.native = native
    for entry, shape, described in zip(entries, shapes, hints):
        entry.code = native.address(entry.name)
        compiled.kept.append(entry)
        facts = described[2] if described is not None else ()
        if shape is not None and all(FACTS[what[0]](*what[1:]) == value for what, value in facts):
            compiled.entries[shape] = entry
    compiled.set_call(entries[-1])
