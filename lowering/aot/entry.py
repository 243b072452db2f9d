"""Writes the C function of an export, which runs a compiled function.

It tests the arguments (null pointers, sizes that the signature fixes or that have one name), takes the context of the
thread, runs the body, copies the results to the caller's memory, and returns 0 or an error code.  Nothing is written
through a pointer of the caller before the body has succeeded and the sizes of all results agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir.graph import Function
from ...ir.types import I64, Scalar, Type
from ..builder.function_builder import likely
from ..llvm import context, float_state, types
from ..llvm.code import Assembly
from ..llvm.emit import Writer, global_name, symbol
from . import failures, runtime, trees
from .failures import Message, Messages
from .interface import Interface, Leaf, Struct, Tree, llvm_struct, members, parts

STACK = 16 << 10            # bytes of the stack for libm and the C library, besides the arrays in stack frames


@dataclass
class Place:
    """The memory of a result: a pointer, the sizes that it must have, and the leaf."""

    leaf: Leaf
    pointer: str
    sizes: list[str] = field(default_factory=list)


@dataclass
class Body:
    """The compiled function that an entry runs.

    ``captured``: LLVM operands of the parameters that follow the arguments, with their types.  ``flush``: subnormal
    numbers are zero in the body.  ``base``: the number of messages before those of the program.  ``frames``: bytes of
    arrays in stack frames.
    """

    function: Function
    captured: Sequence[str]
    flush: bool
    base: int
    frames: int


def write(writer: Writer, interface: Interface, body: Body, messages: Messages, name: str) -> None:
    """Add the C function, under this name, to the module that contains the compiled function."""
    _Entry(writer, interface, body, messages).write(name)


class _Entry:
    def __init__(self, writer: Writer, interface: Interface, body: Body, messages: Messages) -> None:
        self.writer, self.interface, self.body, self.messages = writer, interface, body, messages
        self.code = code = Assembly()
        self.refused, self.failed, self.done = code.label("refused"), code.label("failed"), code.label("finish")
        self.why = code.phi("i32", self.refused, "why")
        self.number = code.phi("i32", self.failed, "number")
        self.likely = likely(writer)
        self.named: dict[str, tuple[str, str]] = {}         # the name of a size: its operand, and where it was met
        self.sizes: list[list[str]] = []                    # of each leaf of the arguments

    def write(self, name: str) -> None:
        code = self.code
        given: list[str] = []
        for tree in self.interface.arguments:
            met: list[list[str]] = []
            for leaf, values in self._argument(tree):
                met.append(values)
                given += self._checked(leaf, values)
            self._check_links(tree, tree.name, met)
        places = [p for tree in self.interface.results for p in self._place(tree)]
        ctx = code.op(f"call ptr {runtime.declare(self.writer, 'jitad.acquire')}()", "ctx")
        self._refuse_unless(code.op(f"icmp ne ptr {ctx}, null"), failures.kind_number("OUT_OF_MEMORY"))
        self.ctx = ctx
        self._stack(ctx)
        parts_of_results = self._run(ctx, given)
        self._results(places, parts_of_results)
        release = runtime.declare(self.writer, "jitad.release")
        code.do(f"call void {release}(ptr {ctx})")
        code.end("ret i32 0")
        code.start(self.failed)
        code_of = code.op(f"call i32 {failures.declare(self.writer)}(ptr {ctx}, i32 {self.number})")
        code.do(f"call void {release}(ptr {ctx})")
        code.end(f"ret i32 {code_of}")
        code.start(self.refused)
        code.end(f"ret i32 {self.why}")
        params = ", ".join(f"{p.llvm} %p.{p.name}" for p in self.interface.parts())
        head = f"define i32 {global_name(name)}({params}) nounwind{self.writer.vector_stack}"
        self.writer.function(name, f"{head} {{\n{code.text()}\n}}\n")

    # --- failures ---------------------------------------------------------------------------------

    def _refuse_unless(self, condition: str, why: str | int) -> None:
        """Return an error code unless the condition holds; nothing has to be released yet."""
        code, go_on = self.code, self.code.label("ok")
        code.add_incoming(self.why, str(why))
        code.branch(condition, go_on, self.refused, self.likely)
        code.start(go_on)

    def _message(self, kind: str, text: str) -> int:
        """The error code of a message."""
        number = self.messages.constant(kind, f"{self.interface.name}: {text}")
        return number << 8 | failures.kind_number(kind)

    def _require(self, condition: str, kind: str, text: str) -> None:
        """As ``_refuse_unless``, once the context is taken."""
        code, go_on = self.code, self.code.label("ok")
        number = self.messages.constant(kind, f"{self.interface.name}: {text}")
        code.add_incoming(self.number, str(number))
        code.branch(condition, go_on, self.failed, self.likely)
        code.start(go_on)

    # --- arguments --------------------------------------------------------------------------------

    def _argument(self, tree: Tree) -> Iterator[tuple[Leaf, list[str]]]:
        """The leaves of an argument, with their parts as the C function receives them."""
        if isinstance(tree, Leaf):
            yield tree, [f"%p.{p.name}" for p in parts(tree, False)]
            return
        pointer = f"%p.{tree.name}"
        self._not_null(pointer, tree.name)
        yield from self._fields(tree, pointer)

    def _fields(self, struct: Struct, pointer: str) -> Iterator[tuple[Leaf, list[str]]]:
        for leaf, where in self._members(struct, pointer, False):
            found = []
            for p, at in zip(members(leaf, False), where):
                found.append(self.code.op(f"load {p.llvm}, ptr {at}"))
            yield leaf, found

    def _members(self, struct: Struct, pointer: str, out: bool) -> Iterator[tuple[Leaf, list[str]]]:
        """The leaves of a struct, with the addresses of their members."""
        kind, k = llvm_struct(struct, out), 0
        for tree in struct.fields:
            own = []
            for _ in members(tree, out):
                own.append(self.code.op(f"getelementptr inbounds {kind}, ptr {pointer}, i32 0, i32 {k}", "member"))
                k += 1
            if isinstance(tree, Struct):
                yield from self._members(tree, own[0], out)
            else:
                yield tree, own

    def _not_null(self, pointer: str, name: str) -> None:
        self._refuse_unless(self.code.op(f"icmp ne ptr {pointer}, null"),
                            self._message("NULL_POINTER", f"{name} is null"))

    def _checked(self, leaf: Leaf, values: list[str]) -> list[str]:
        """Test an argument; returns its parts with their types, as the body takes them."""
        if not leaf.is_array:
            (x,), t = values, types.register(leaf.dtype)
            self.sizes.append([])
            return [f"i1 {self.code.op(f'icmp ne i8 {x}, 0')}" if t == "i1" else f"{t} {x}"]
        pointer, *sizes = values
        if leaf.like is not None:
            sizes = self.sizes[leaf.like]
        else:
            for k, (dim, n) in enumerate(zip(leaf.dims, sizes)):
                self._check_size(leaf, k, dim, n)
        self._filled(pointer, sizes, leaf.name)
        self.sizes.append(sizes)
        return [f"ptr {pointer}", *(f"i64 {n}" for n in sizes)]

    def _check_size(self, leaf: Leaf, k: int, dim: int | str | None, n: str) -> None:
        code, what = self.code, f"size {k} of {leaf.name}"
        if isinstance(dim, int):
            wrong = self._message("SIZE_MISMATCH", f"{what} is not {dim}")
            self._refuse_unless(code.op(f"icmp eq i64 {n}, {dim}"), wrong)
        elif dim is not None and dim in self.named:
            other, where = self.named[dim]
            self._refuse_unless(code.op(f"icmp eq i64 {n}, {other}"),
                                self._message("SIZE_MISMATCH", f"{what} differs from {where}: both are {dim}"))
        else:
            self._refuse_unless(code.op(f"icmp sge i64 {n}, 0"), self._message("SIZE_MISMATCH", f"{what} is negative"))
            if dim is not None:
                self.named[dim] = n, what

    def _filled(self, pointer: str, sizes: Sequence[str], name: str) -> None:
        """Refuse a null pointer unless the array has no elements."""
        code = self.code
        there = code.op(f"icmp ne ptr {pointer}, null")
        for n in sizes:
            there = code.op(f"or i1 {there}, {code.op(f'icmp eq i64 {n}, 0')}")
        self._refuse_unless(there, self._message("NULL_POINTER", f"{name} is null"))

    def _check_links(self, tree: Tree, path: str, met: list[list[str]]) -> None:
        """Test the references of packed trees in an argument; ``met``: the parts of its leaves, which are consumed."""
        if isinstance(tree, Leaf):
            del met[0]
            return
        if tree.links:
            given = {field.name: values for field, values in zip(tree.fields, met)}
            for links in tree.links:
                valid = trees.test(self.writer, self.code, tree, links, given)
                self._refuse_unless(valid, self._message(
                    "INDEX", f"{path}.{links.start or (links.spans or [links.column])[0]} leads outside the tree"))
        for inner in tree.fields:
            self._check_links(inner, f"{path}.{inner.name}", met)

    # --- the body ---------------------------------------------------------------------------------

    def _stack(self, ctx: str) -> None:
        """Fail if the thread's stack is too small for the arrays in stack frames.

        A stack that is elsewhere than the thread's own (of a coroutine) is not tested.
        """
        code = self.code
        here = code.op(f"ptrtoint ptr {code.alloca('i8', 1, 1)} to i64", "sp")
        at = code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {context.offset('stack_limit')}")
        low = code.op(f"sub i64 {code.op(f'load i64, ptr {at}, align 8')}, {context.GUARD}")
        left = code.op(f"sub i64 {here}, {low}")
        self._require(code.op(f"icmp uge i64 {left}, {STACK + self.body.frames}"), "RECURSION",
                      "the stack of this thread is too small")

    def _run(self, ctx: str, given: list[str]) -> list[str]:
        """Call the body; returns the parts of its results."""
        code, body = self.code, self.body
        struct = types.result_struct(body.function.result_types)
        callee = global_name(symbol(body.function.name))
        before = recorded = ""
        if body.flush:
            recorded = code.op(f"getelementptr inbounds i8, ptr {ctx}, i64 {context.offset('floats')}")
            before = float_state.flush(self.writer, code, recorded)
            callee = code.op(f'call ptr asm "", "=r,0"(ptr {callee})', "body")    # see ``python/entry_point.py``
        whole = code.op(f"call {struct} {callee}({', '.join([f'ptr {ctx}', *given, *body.captured])})", "r")
        if body.flush:
            float_state.restore(code, recorded, before)
        status = code.op(f"extractvalue {struct} {whole}, 0")
        good, bad = code.label("good"), code.label("bad")
        code.branch(code.op(f"icmp eq i32 {status}, 0"), good, bad, self.likely)
        code.start(bad)
        code.add_incoming(self.number, self._number(status))
        code.jump(self.failed)
        code.start(good)
        count = 1 + sum(len(types.parts_of(t)) for t in body.function.result_types)
        return [code.op(f"extractvalue {struct} {whole}, {i}", "out") for i in range(1, count)]

    def _number(self, status: str) -> str:
        """The number of the message for a status that is not 0; shortages without a line have messages of their own."""
        code = self.code
        number = code.op(f"add i32 {status}, {self.body.base}")
        for shortage, kind in ((context.RECURSION, "RECURSION"), (context.MEMORY, "OUT_OF_MEMORY")):
            known = self.messages.constant(kind, f"{self.interface.name}: {failures.TEXTS[failures.kind_number(kind)]}")
            number = code.op(f"select i1 {code.op(f'icmp eq i32 {status}, {shortage}')}, i32 {known}, i32 {number}")
        return number

    # --- results ----------------------------------------------------------------------------------

    def _place(self, tree: Tree) -> Iterator[Place]:
        """The places of a result, tested for null pointers; a tree's leaves in order."""
        if isinstance(tree, Struct):
            pointer = f"%p.{tree.name}"
            self._not_null(pointer, tree.name)
            for leaf, where in self._members(tree, pointer, True):
                if leaf.is_array:
                    loaded = [self.code.op(f"load {p.llvm}, ptr {at}") for p, at in zip(members(leaf, True), where)]
                    yield self._array_place(leaf, loaded)
                else:
                    yield Place(leaf, where[0])
        elif tree.is_array:
            yield self._array_place(tree, [f"%p.{p.name}" for p in parts(tree, True)])
        else:
            self._not_null(f"%p.{tree.name}", tree.name)
            yield Place(tree, f"%p.{tree.name}")

    def _array_place(self, leaf: Leaf, values: list[str]) -> Place:
        pointer, *sizes = values
        if leaf.like is not None:
            sizes = self.sizes[leaf.like]
        self._filled(pointer, sizes, leaf.name)
        return Place(leaf, pointer, sizes)

    def _results(self, places: list[Place], values: list[str]) -> None:
        """Compare the sizes of the results with the caller's, then write all results."""
        found: list[tuple[Place, list[str]]] = []
        rest = iter(places)
        for number, kind in enumerate(self.body.function.result_types):
            n = len(types.parts_of(kind))
            mine, values = values[:n], values[n:]
            if number in self.interface.unused:
                continue
            place = next(rest)
            found.append((place, mine))
            for k, (have, wanted) in enumerate(zip(found[-1][1][1:], place.sizes)):
                self._agree(f"{self.interface.name}: size {k} of {place.leaf.name}", have, wanted)
        for place, parts_of_result in found:
            self._store(place, parts_of_result)

    def _agree(self, what: str, have: str, wanted: str) -> None:
        """Fail unless the size of a result is the caller's; the message tells the size."""
        code = self.code
        number = self.messages.add(Message("SIZE_MISMATCH", f"{what} has to be %lld", f"{what} is wrong", ((0, I64),)))
        wrong, go_on = code.label("wrong"), code.label("ok")
        code.branch(code.op(f"icmp eq i64 {have}, {wanted}"), go_on, wrong, self.likely)
        code.start(wrong)
        at = code.op(f"getelementptr inbounds i8, ptr {self.ctx}, i64 {context.offset('operand0')}")
        code.do(f"store i64 {have}, ptr {at}, align 8")
        code.add_incoming(self.number, str(number))
        code.jump(self.failed)
        code.start(go_on)

    def _store(self, place: Place, values: list[str]) -> None:
        code, t = self.code, place.leaf.dtype
        if not place.leaf.is_array:
            (x,), kind = values, types.memory(t)
            x = code.op(f"zext i1 {x} to i8") if t.is_bool else x
            code.do(f"store {kind} {x}, ptr {place.pointer}, align {types.width(t)}")
            return
        size = str(types.width(t))
        for n in values[1:]:
            size = code.op(f"mul i64 {size}, {n}")
        callee = self.writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        code.do(f"call void {callee}(ptr {place.pointer}, ptr {values[0]}, i64 {size}, i1 false)")


def captured(writer: Writer, number: int, t: Type, value: Any) -> list[str]:
    """LLVM operands, with types, of a captured value: a number is a literal, an array a constant of the library."""
    if isinstance(t, Scalar):
        return [f"{types.register(t)} {types.literal(value, t)}"]
    data = np.ascontiguousarray(value)
    text = "".join(f"\\{b:02X}" for b in data.tobytes())
    name = writer.global_(f"jitad.captured.{number}", f'internal constant [{data.nbytes} x i8] c"{text}", align 64')
    return [f"ptr {name}", *(f"i64 {n}" for n in data.shape)]
