"""Machine code for one signature: its entry points, its guards, and the callable that Python uses.

Code that comes from the disk cache runs without the compiler, so only what makes entry points imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..compiler_threads import with_room
from ..errors import CompileError, TypeInferenceError
from ..frontend.captured.guards import Guard, is_number
from ..frontend.captured.leaves import Leaf, Opened
from ..frontend.captured.places import MISSING, Place, Reader
from ..frontend.columns.pack import unpacked
from ..ir.types import Array, Type, from_numpy
from ..locks import compilation
from ..lowering.python import callable as native_callable
from ..lowering.python.entry import Entry
from ..pytree import LEAF, Structure, holds_packed, unflatten
from .signature import Signature, Spec, Static, classify

if TYPE_CHECKING:
    from ..lowering.jit.image import Unit
    from ..lowering.math.options import Options
    from ..lowering.python.unbox import Argument

BODY = "jitad.body"                   # an alias of the compiled function that other modules can refer to
lock = compilation


@dataclass(frozen=True)
class Shape:
    """The form of a call: the number of arguments by position, then the names of the others, in order."""

    count: int
    keywords: tuple[str, ...] = ()


class LongLoop(Exception):
    """A loop without polls would run for long: the call has to be repeated with code that polls in all loops."""


class Prototype(NamedTuple):
    """The name and the types of a compiled function of the IR."""

    name: str
    param_types: Sequence[Type]
    result_types: Sequence[Type]


class Program(NamedTuple):
    """Captured state that a program reads, and the leaves of the arguments for which it was traced."""

    captured: Sequence[Place]
    captured_leaves: Sequence[Leaf]
    guards: Sequence[Guard]
    leaves: Sequence[Any] = ()


class Native(Protocol):
    """Machine code in memory."""

    def address(self, name: str) -> int: ...


class Errors(Protocol):
    """Makes the exception for a status and four words.  ``long``: see ``lowering.python.exceptions.Failures``."""

    long: bool

    def __call__(self, status: int, *words: int) -> BaseException: ...


class Portable(NamedTuple):
    """The parts of a program that other processes need.

    ``unit``: the object file and those that it calls, for ``link``.  ``objects``: the objects that are operands, by
    address.  ``entries``: those in the object file; the last one is flat.
    """

    unit: Unit
    objects: dict[int, Any]
    entries: Sequence[Entry]
    names: Sequence[str]


@dataclass(eq=False)
class Compiled:
    """Machine code for one signature.

    ``call`` takes the leaves that are not constants, by position; Python calls the code through it.  It is made when it
    is first used.  ``entries`` are the entry points that take the arguments as the user passes them; the object that
    the user holds calls them.
    """

    signature: Signature
    function: Prototype
    result: Structure
    fixed: dict[int, Any]
    program: Program
    effort: str
    flush: bool
    recursive: bool
    failures: Errors
    options: Options | None = None                   # of the lowering; those of code from the disk are not known
    native: Native | None = None
    portable: Portable | None = None                 # until it is on disk
    _call: Any = None
    entries: dict[Shape, Entry] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)    # what machine code refers to
    seconds: dict[str, float] = field(default_factory=dict)
    linked: list[str] = field(default_factory=list)       # the user's functions whose separate code it calls

    # --- entry points -----------------------------------------------------------------------------

    def flat_entry(self, name: str) -> Entry:
        """An entry that takes by position the leaves that are not constants, then the captured values."""
        from ..lowering.python.unbox import Argument
        leaves = [leaf for leaf in self.signature.leaves if isinstance(leaf, Leaf)] + [*self.program.captured_leaves]
        return self._entry(name, [Argument(i, LEAF, (leaf,)) for i, leaf in enumerate(leaves)], Shape(len(leaves)))

    def entry(self, name: str, shape: Shape, names: Sequence[str]) -> Entry:
        """An entry for calls of this shape; ``names``: the parameters that can be passed by position."""
        from ..lowering.python.unbox import Argument
        args, kwargs = self.signature.structure.children
        leaves = iter(self.signature.leaves)
        arguments = []
        for where, structure in [*zip(range(len(args.children)), args.children), *zip(kwargs.static, kwargs.children)]:
            if isinstance(where, int) and where < shape.count:
                index = where
            else:
                index = shape.count + shape.keywords.index(where if isinstance(where, str) else names[where])
            mine = [next(leaves) for _ in range(structure.count)]
            if structure.is_leaf and isinstance(mine[0], Static):
                arguments.append(Argument(index, None, value=mine[0].value))
            else:
                read = tuple(leaf for leaf in mine if not isinstance(leaf, Static))
                arguments.append(Argument(index, structure, read))
        entry = self._entry(name, arguments, shape)
        entry.guards = self.program.guards
        entry.captured = list(zip(self.program.captured, self.program.captured_leaves))
        return entry

    def _entry(self, name: str, arguments: list[Argument], shape: Shape) -> Entry:
        from ..lowering.python.box import buildable
        build = None if buildable(self.result) else self.build
        entry = Entry(name, self.function, arguments, shape.count, tuple(map(sys.intern, shape.keywords)),
                             self.result, self.effort, self.recursive, self.failures, build, self.fixed,
                             flush=self.flush)
        self.kept.append(entry)
        return entry

    # --- captured state ---------------------------------------------------------------------------

    def fit(self, leaf: Leaf, value: Any) -> Any:
        """A captured value as the program takes it, or ``MISSING`` if its type is not that of ``leaf``."""
        return fitting(leaf, value)

    def captured(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The current captured values that the program takes, or None if one of its guards does not hold.

        ``leaves``: the leaves of the arguments.
        """
        read = Reader(leaves)
        if not all(guard.holds(read) for guard in self.program.guards):
            return None
        found = []
        for place, leaf in zip(self.program.captured, self.program.captured_leaves):
            value = self.fit(leaf, read(place))
            if value is MISSING:
                return None
            found.append(value)
        return found

    def unheld(self, leaves: Sequence[Any]) -> str:
        """A description of the guards and captured values that do not hold."""
        read, program = Reader(leaves), self.program
        return ", ".join([*(repr(g) for g in program.guards if not g.holds(read)), *(
            repr(p) for p, leaf in zip(program.captured, program.captured_leaves)
            if self.fit(leaf, read(p)) is MISSING)])

    def refresh(self, leaves: Sequence[Any]) -> bool:
        """Updates the hints of the entries: where captured state is now.  True if any was out of date."""
        hints = [entry.hints for entry in self.entries.values() if entry.hints is not None]
        return any([h.refresh(leaves) for h in hints])

    def changed(self, leaves: Sequence[Any]) -> set[Place]:
        """The places of compiled-in numbers that have changed, and of captured arrays whose sizes have changed."""
        read, program = Reader(leaves), self.program
        numbers = {g.place for g in program.guards if g.test == "means" and is_number(g.expected)
                   and type(read(g.place)) is type(g.expected) and not g.holds(read)}
        arrays = [(p, leaf) for p, leaf in zip(program.captured, program.captured_leaves)
                  if isinstance(leaf.type, Array) and fitting(leaf, read(p)) is MISSING]
        return numbers | {p for p, leaf in arrays if self.fit(_of_any_size(leaf), read(p)) is not MISSING}

    @cached_property
    def packs(self) -> bool:
        """True if the result contains trees."""
        return holds_packed(self.result)

    def build(self, leaves: tuple[Any, ...]) -> Any:
        result = unflatten(self.result, leaves)
        return unpacked(result) if self.packs and not holds_packed(self.signature.structure) else result

    def enterable(self) -> bool:
        """True if machine code can read the arguments and test the guards.

        Constants are compared only if they are whole arguments.
        """
        from ..lowering.python.unbox import readable
        if not self._readable:
            return False
        leaves, (args, kwargs) = iter(self.signature.leaves), self.signature.structure.children
        for a in (*args.children, *kwargs.children):
            mine = [next(leaves) for _ in range(a.count)]
            if not a.is_leaf and any(isinstance(leaf, Static) for leaf in mine):
                return False
        return readable(self.signature.structure)

    @cached_property
    def _readable(self) -> bool:
        from ..lowering.python import guards
        program = self.program
        opened = [leaf.number for leaf in self.signature.leaves if isinstance(leaf, Opened)]
        return guards.readable(program.guards, list(zip(program.captured, program.captured_leaves)), opened)

    def is_flat(self, shape: Shape) -> bool:
        """True if calls of this shape pass only leaves by position, and nothing is captured (flat entry)."""
        dynamic = all(not isinstance(leaf, Static) for leaf in self.signature.leaves)
        args, kwargs = self.signature.structure.children
        plain = not shape.keywords and not kwargs.children and dynamic
        alone = not self.program.captured and not self.program.guards
        return alone and plain and all(a.is_leaf for a in args.children)

    def add_shape(self, shape: Shape, names: Sequence[str]) -> Entry | None:
        """Compiles a further entry point, for calls of this shape, if there can be one."""
        entry = self.entries[shape] = self.entry(f"jitad.entry.{len(self.entries)}", shape, names)
        self._compile_alone(entry)
        return entry

    @property
    def call(self) -> Any:
        if self._call is None:
            with_room(self._make_call)
        return self._call

    def _make_call(self) -> None:
        with lock:
            if self._call is None:
                entry = self.flat_entry("jitad.entry")
                self._compile_alone(entry)
                self.set_call(entry)

    def set_call(self, flat: Entry) -> None:
        call = native_callable.make(_refused, self)
        flat.next.value = native_callable.SLOW_VECTORCALL
        native_callable.set_entry(call, flat.code)
        self._call = call

    def _compile_alone(self, entry: Entry) -> None:
        """Compiles an entry in an LLVM module of its own, which calls the compiled function by its address."""
        from ..lowering.jit import cpu
        from ..lowering.llvm.emit import Writer
        from ..lowering.math.options import Options
        from ..lowering.python import entry_point
        assert self.native is not None
        entry.address = self.native.address(BODY)
        writer = Writer(cpu.target().triple, cpu.target().layout)
        entry_point.write(writer, entry)
        native = cpu.Native(writer.text(), self.options or Options(), [entry.name], {})
        entry.code = native.address(entry.name)
        self.kept.append(native)


def _of_any_size(leaf: Leaf) -> Leaf:
    """The same leaf for arrays of any sizes other than 1."""
    assert isinstance(leaf.type, Array)
    return Leaf(Array(leaf.type.dtype, (None,) * leaf.type.rank))


def fitting(leaf: Leaf, value: Any) -> Any:
    """A captured value in the form that machine code reads, or ``MISSING`` if its type is not that of ``leaf``."""
    if value is MISSING:
        return MISSING
    try:
        found, value = classify(value)
    except (TypeInferenceError, OverflowError):
        return MISSING
    if found == leaf:
        return value
    if not isinstance(leaf.type, Array) or not isinstance(value, np.ndarray):
        return MISSING
    if from_numpy(value.dtype) != leaf.type.dtype:
        return MISSING
    fits = len(value.shape) == leaf.type.rank and all(
        n != 1 if known is None else n == known for n, known in zip(value.shape, leaf.type.dims))
    return value if fits else MISSING


def _refused(compiled: Compiled, *leaves: Any) -> Any:
    """Raises ``LongLoop``, or an error for arguments that a flat entry does not take: ``classify`` disagrees."""
    if compiled.failures.long:
        raise LongLoop
    if any(isinstance(x, Spec) for x in leaves):
        raise TypeError("jitad.spec(…) stands for an argument of inspect; a call takes values")
    raise CompileError(f"the entry point for ({compiled.signature}) does not take {[type(x).__name__ for x in leaves]}")
