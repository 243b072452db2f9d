"""The C header of a library: types, error codes, and for each parameter its shape and who writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..lowering.aot import failures, interface
from ..lowering.aot.interface import Interface, Leaf, Struct, Tree, c_type
from ..lowering.aot.library import Program

_HEAD = """/* {name}: compiled ahead of time from Python by jitad.
 *
 * Every function returns 0, or an error code.  JITAD_KIND(code) is one of the constants below; {errors}(code)
 * gives the text, with the line of the Python program.  The text is a constant, or, for the last failure of this
 * thread, it is valid until the next failure of this thread.  If a program has several libraries of this kind, use
 * {errors}, since jitad_strerror may be that of another one.
 *
 * All memory belongs to the caller: arrays are read or written during the call only, and are contiguous in C order.
 * Nothing is written unless the function returns 0.  Results may overlap arguments, but not each other.
 * All functions may be called from several threads at once.
 */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef JITAD_KIND
#define JITAD_KIND(code) ((code) & 0xff)
enum {{
{kinds}
}};
#endif

const char *jitad_strerror(int code);
const char *{errors}(int code);
"""
_TAIL = """
#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def errors_of(name: str) -> str:
    """The library's own name of ``jitad_strerror``."""
    return f"{name}_strerror"


def text(name: str, programs: Sequence[Program]) -> str:
    """The header of the library ``name``, which is an identifier."""
    kinds = "\n".join(f"    JITAD_{kind} = {i},{' ' * (16 - len(kind))}/* {what} */"
                      for i, (kind, what) in enumerate(zip(failures.KINDS, failures.TEXTS)))
    words = {"name": name, "guard": f"{name.upper()}_H", "errors": errors_of(name), "kinds": kinds}
    parts = [_HEAD.format(**words), *structs(programs), *map(_function, programs), _TAIL.format(**words)]
    return "\n".join(parts)


def structs(programs: Sequence[Program]) -> Iterator[str]:
    """The definitions of all C structs, each once."""
    seen: set[str] = set()
    for program in programs:
        for struct, out in program.interface.structs():
            if struct.tag not in seen:
                seen.add(struct.tag)
                yield _struct(struct, out)


def _struct(struct: Struct, out: bool) -> str:
    lines = [f"    {declared(p)};" for tree in struct.fields for p in interface.members(tree, out)]
    return "\n".join([f"typedef struct {struct.tag} {{", *lines, f"}} {struct.tag};", ""])


def declared(part: interface.Part) -> str:
    """The C declaration of a parameter or member."""
    return f"{part.c}{'' if part.c.endswith('*') else ' '}{part.name}"


def prototype(made: Interface) -> str:
    """The C declaration of a function, without the semicolon."""
    return f"int {made.name}({', '.join(map(declared, made.parts())) or 'void'})"


def _function(program: Program) -> str:
    made = program.interface
    lines = [f"{made.name}: {made.about}", ""]
    paths = [found for tree in made.arguments for found in _paths(tree, tree.name)]
    for tree, out in [*((t, False) for t in made.arguments), *((t, True) for t in made.results)]:
        lines += _described(tree, tree.name, out, paths)
    kinds = ", ".join(f"JITAD_{kind}" for kind in _kinds(program))
    lines += ["", f"Errors: {kinds}."]
    comment = "\n".join(f" * {line}".rstrip() for line in lines)
    return f"/*\n{comment}\n */\n{_wrapped(prototype(made))};\n"


def _kinds(program: Program) -> list[str]:
    """The kinds of errors that a function may return."""
    found = {"NULL_POINTER", "SIZE_MISMATCH", "OUT_OF_MEMORY", "RECURSION"}
    found |= {failures.kind_of(info) for info in program.module.exceptions}
    found |= {"INDEX" for tree in program.interface.arguments if _has_links(tree)}
    return [kind for kind in failures.KINDS if kind in found]


def _has_links(tree: Tree) -> bool:
    return isinstance(tree, Struct) and (bool(tree.links) or any(map(_has_links, tree.fields)))


def _member(path: str, name: str) -> str:
    """The member ``name`` of a struct that is reached by ``path``, which is a pointer at the top."""
    return f"{path}.{name}" if "->" in path else f"{path}->{name}"


def _paths(tree: Tree, path: str) -> Iterator[tuple[Leaf, str]]:
    """The leaves of an argument, with the C expressions that reach them."""
    if isinstance(tree, Leaf):
        yield tree, path
        return
    for field in tree.fields:
        yield from _paths(field, _member(path, field.name))


def _described(tree: Tree, path: str, out: bool, given: Sequence[tuple[Leaf, str]]) -> list[str]:
    """Lines of the comment for one parameter: its shape, and who writes it."""
    if isinstance(tree, Struct):
        lines = [f"{path}: {tree.tag}, {'its members are written' if out else 'read'}"]
        lines += [f"  {line}" for line in tree.note]
        for field in tree.fields:
            lines += ["  " + line for line in _described(field, _member(path, field.name), out, given)]
        return lines
    if not tree.is_array:
        return [f"{path}: {c_type(tree.dtype)}, {'written' if out else 'read'}"]
    if tree.like is not None:
        like, where = given[tree.like]
        sizes, note = _sizes(like, where), f", the shape of {where}"
    else:
        sizes, note = _sizes(tree, path), _named(tree)
    what = "written, in memory of the caller" if out else "read"
    return [f"{path}: {c_type(tree.dtype)}{sizes}, {what}{note}"]


def _sizes(leaf: Leaf, path: str) -> str:
    return "".join(f"[{d}]" if isinstance(d, int) else f"[{path}_{k}]" for k, d in enumerate(leaf.dims))


def _named(leaf: Leaf) -> str:
    named = [f"{leaf.name}_{k} = {d}" for k, d in enumerate(leaf.dims) if d is not None]
    return f"; {', '.join(named)}" if named else ""


def _wrapped(text: str, width: int = 110) -> str:
    """A declaration in lines of at most ``width`` characters, if there are commas to break it at."""
    lines, indent = [""], " " * (text.index("(") + 1)
    for part in text.split(", "):
        if len(lines[-1]) + len(part) + 2 > width:
            lines.append(indent)
        lines[-1] += (", " if lines[-1].strip() else "") + part
    return ",\n".join(lines)
