"""Entry points of functions that run on a device: machine code that recognises a call, and the Python that makes it.

As for functions of the CPU (``lowering/python/entry_point.py``), calls of the object that a user holds go to machine
code, which tests the types of the arguments and the guards on captured state.  It takes numbers of Python, device
arrays, which it knows by their class and by the object that describes their kind (``DeviceArray.kind``), and arrays of
NumPy.  Then it calls ``run`` with the arguments and the captured values: numbers as they are, of device arrays
``DeviceArray.passed``.  If there is an array of NumPy it calls ``copy_and_run``, which takes these as they are.  Any
other call goes on to the next entry, and at last to ``DeviceDispatcher``, which makes ``kind`` and ``passed`` if an
array lacks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..calling.compiled import Compiled, Prototype
from ..frontend.captured.leaves import Leaf
from ..frontend.captured.places import Place
from ..ir.types import BOOL, F64, I64, Array
from ..lowering.jit import cpu
from ..lowering.llvm import capi
from ..lowering.llvm.capi import function, pointer
from ..lowering.llvm.code import Assembly
from ..lowering.llvm.emit import Writer, global_name
from ..lowering.math.options import Options
from ..lowering.python.attributes import Attributes
from ..lowering.python.callable import LAST
from ..lowering.python.entry import Entry
from ..lowering.python.guards import Reads
from ..lowering.python.hints import Hints, Unreadable
from ..lowering.python.unbox import Unboxer
from ..pytree import LEAF
from .arrays import DeviceArray, kind_of

NAME = "jitad.device_entry"


def readable(leaves: Iterable[Any], captured: Iterable[Leaf]) -> bool:
    """True if the arguments are Python's numbers and arrays with axes, and the captured values floats and such arrays.
    """
    return all(isinstance(leaf, Leaf) and (_is_array(leaf) or leaf.weak and leaf.type in (F64, I64, BOOL))
               for leaf in leaves) and all(_is_array(leaf) or leaf == _FLOAT for leaf in captured)


_FLOAT = Leaf(F64, True)


def _is_array(leaf: Leaf) -> bool:
    return isinstance(leaf.type, Array) and leaf.type.rank > 0


def entry_point(compiled: Compiled, target: str, run: Callable[..., Any], copy_and_run: Callable[..., Any]
                ) -> Entry | None:
    """An entry that passes calls on; None if a guard cannot be tested by machine code."""
    program = compiled.program
    entry = Entry(NAME, Prototype(NAME, (), ()), (), len(compiled.signature.leaves), (), LEAF, "", False,
                  compiled.failures)
    writer = Writer(cpu.target().triple, cpu.target().layout)
    with capi.recording() as objects:
        try:
            _write(writer, entry, target, list(compiled.signature.leaves),
                   list(zip(program.captured, program.captured_leaves)), program.guards, (run, copy_and_run))
        except Unreadable:
            return None
    native = cpu.Native(writer.text(), Options(), [NAME], {})
    entry.code = native.address(NAME)
    compiled.kept += [entry, native, objects, run, copy_and_run]
    return entry


def _write(writer: Writer, entry: Entry, target: str, leaves: Sequence[Any], captured: Sequence[tuple[Place, Leaf]],
           guards: Sequence[Any], runs: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
    code = Assembly()
    likely = ", !prof " + writer.node('!"branch_weights", i32 4000, i32 1')
    unboxer = Unboxer(code, code.label("miss"), likely)
    miss = unboxer.miss
    unboxer.require_equal("i64", code.op(f"and i64 %nargsf, {capi.NARGS_MASK}", "n"), str(entry.count))
    unboxer.require_equal("ptr", "%kwnames", "null")
    slots = Attributes(unboxer, Hints((), 0))
    given = [unboxer.load("ptr", "%args", 8 * k) for k in range(len(leaves))]
    copies: list[str] = []
    given = [_require(unboxer, slots, obj, leaf, target, copies) for obj, leaf in zip(given, leaves)]
    if guards or captured:
        reads = _Reads(unboxer, guards, captured, {}, False)
        entry.hints = reads.hints
        found = reads.objects_of_captured()
        given += [_require(unboxer, slots, obj, leaf, target, copies) for obj, (_, leaf) in zip(found, captured)]
    code.do(f"store ptr {capi.memory(entry.mark)}, ptr {unboxer.at('%callable', LAST)}, align 8")
    passed = code.alloca("ptr", max(len(given), 1))
    for k, obj in enumerate(given):
        code.do(f"store ptr {obj}, ptr {unboxer.at(passed, 8 * k)}, align 8")
    run, copy_and_run = map(pointer, runs)
    some = "false"
    for copy in copies:
        some = code.op(f"or i1 {some}, {copy}", "c")
    chosen = code.op(f"select i1 {some}, ptr {copy_and_run}, ptr {run}", "run")
    made = code.op(f"call ptr {function('PyObject_Vectorcall')}(ptr {chosen}, ptr {passed}, "
                   f"i64 {len(given)}, ptr null)", "made")
    code.end(f"ret ptr {made}")
    code.start(miss)
    following = code.op(f"load ptr, ptr {capi.memory(entry.mark)}, align 8")
    went = code.op(f"musttail call ptr {following}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames)")
    code.end(f"ret ptr {went}")
    head = f"define ptr {global_name(NAME)}(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames) nounwind"
    writer.function(NAME, text := f"{head} {{\n{code.text()}\n}}\n")
    writer.outside(capi.symbols(text))


def _require(unboxer: Unboxer, slots: Attributes, obj: str, leaf: Leaf, target: str, copies: list[str]) -> str:
    """The value passed for an object, tested to be a number, or a contiguous array, of the type of ``leaf``.

    ``copies`` gets the condition that it is an array of NumPy.
    """
    if not isinstance(leaf.type, Array):
        unboxer.leaf(leaf, obj)
        return obj
    code = unboxer.code
    on_device, on_host, done = (code.label(h) for h in ("on_device", "on_host", "array"))
    kind = unboxer.load("ptr", obj, capi.OB_TYPE)
    code.branch(code.op(f"icmp eq ptr {kind}, {pointer(DeviceArray)}", "c"), on_device, on_host, unboxer.likely)
    passed, copied = code.phi("ptr", done), code.phi("i1", done, "copied")
    code.start(on_host)
    unboxer.array(leaf.type, obj)
    code.add_incoming(passed, obj)
    code.add_incoming(copied, "true")
    code.jump(done)
    code.start(on_device)
    code.add_incoming(passed, _device_array(unboxer, slots, obj, leaf.type, target))
    code.add_incoming(copied, "false")
    code.jump(done)
    code.start(done)
    copies.append(copied)
    return passed


def _device_array(unboxer: Unboxer, slots: Attributes, obj: str, t: Array, target: str) -> str:
    """The host program's view of a ``DeviceArray``, tested to be contiguous, and of the type."""
    found = slots.read(obj, DeviceArray, ("_kind", "_passed", "shape"), ())
    kind = kind_of(target, t.dtype.np, tuple(n == 1 for n in t.dims))
    unboxer.require_all(f"eq ptr {found['_kind']}, {pointer(kind)}", f"ne ptr {found['_passed']}, {pointer(None)}")
    for axis, n in enumerate(t.dims):
        if n not in (None, 1):
            size = unboxer.load("ptr", found["shape"], capi.TUPLE_ITEMS + 8 * axis)
            unboxer.require_equal("i64", unboxer.integer(size), str(n))
    return found["_passed"]


class _Reads(Reads):
    """Tests the guards, and finds the captured objects."""

    def objects_of_captured(self) -> list[str]:
        self._functions()
        for guard in self.guards:
            self._guard(guard)
        if self.same:
            self.unboxer.require_all(*self.same)
        return [self.pointer(place) for place, _ in self.captured]


