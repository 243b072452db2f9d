"""The Fortran module of a library: interfaces of its functions through ``iso_c_binding``.

Arrays are assumed-size, with the sizes behind them; an array of C order has its axes in reverse in Fortran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.types import Scalar
from ..lowering.aot import failures, interface
from ..lowering.aot.interface import Interface, Struct, Tree
from ..lowering.aot.library import Program

_HEAD = """! {name}: compiled ahead of time from Python by jitad.
! Each function returns 0, or an error code, of which the low eight bits are one of the constants below.
! Axes are in C order: an array a(m, n) of C is a(n, m) here, and its sizes are passed as m, n.
module {name}_library
    use, intrinsic :: iso_c_binding
    implicit none
"""
_STRERROR = """
        function jitad_strerror(code) bind(C) result(text)
            import :: c_int, c_ptr
            integer(c_int), value :: code
            type(c_ptr) :: text
        end function
"""


def text(name: str, programs: Sequence[Program]) -> str:
    """The module ``NAME_library``."""
    lines = [_HEAD.format(name=name)]
    lines += [f"    integer(c_int), parameter :: JITAD_{kind} = {i}" for i, kind in enumerate(failures.KINDS)]
    seen: set[str] = set()
    for program in programs:
        for struct, out in program.interface.structs():
            if struct.tag not in seen:
                seen.add(struct.tag)
                lines += ["", *_type(struct, out)]
    lines += ["", "    interface", _STRERROR.strip("\n")]
    for program in programs:
        lines += ["", *_function(program.interface)]
    return "\n".join([*lines, "    end interface", f"end module {name}_library", ""])


def _kind(t: Scalar) -> str:
    """The Fortran type of a number; Fortran has no unsigned integers, so their bits are passed as signed ones."""
    if t.is_bool:
        return "logical(c_bool)"
    if t.is_float:
        return f"real({'c_double' if t.bits == 64 else 'c_float'})"
    return f"integer(c_int{t.bits}_t)"


def _type(struct: Struct, out: bool) -> Iterator[str]:
    yield f"    type, bind(C) :: {struct.tag}"
    for tree in struct.fields:
        if isinstance(tree, Struct):
            yield f"        type({tree.tag}) :: {tree.name}"
        elif tree.is_array:
            yield f"        type(c_ptr) :: {tree.name}"
            for part in interface.members(tree, out)[1:]:
                yield f"        integer(c_int64_t) :: {part.name}"
        else:
            yield f"        {_kind(tree.dtype)} :: {tree.name}"
    yield "    end type"


def _function(made: Interface) -> Iterator[str]:
    names = ", ".join(p.name for p in made.parts())
    yield f"        function {made.name}( &"
    yield from _continued(names)
    yield "                ) bind(C) result(code)"
    yield "            import"
    yield "            integer(c_int) :: code"
    for tree in made.arguments:
        yield from _declared(tree, False)
    for tree in made.results:
        yield from _declared(tree, True)
    yield "        end function"


def _continued(names: str, width: int = 90) -> Iterator[str]:
    line = ""
    for name in names.split(", "):
        if len(line) + len(name) > width:
            yield f"                {line} &"
            line = ""
        line += f"{name}, "
    yield f"                {line.removesuffix(', ')} &"


def _declared(tree: Tree, out: bool) -> Iterator[str]:
    intent = "intent(out)" if out else "intent(in)"
    if isinstance(tree, Struct):
        yield f"            type({tree.tag}), intent({'inout' if out else 'in'}) :: {tree.name}"
    elif tree.is_array:
        yield f"            {_kind(tree.dtype)}, {intent} :: {tree.name}(*)"
        for part in interface.members(tree, out)[1:]:
            yield f"            integer(c_int64_t), value :: {part.name}"
    else:
        yield f"            {_kind(tree.dtype)}, {intent if out else 'value'} :: {tree.name}"
