"""The C interface of an exported function: its parameters as trees, and the C and LLVM types of their parts.

A tree is a ``Leaf``, a number or an array, or a ``Struct`` of trees.  At the top a number is passed by value, and an
array as a pointer and its sizes; a struct as a pointer to a C struct, whose members are these parts.  Results are
written through pointers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.types import Array, Scalar
from ..llvm import types

Dim = int | str | None          # a literal size, the name of a size, or any size

_C = {"f64": "double", "f32": "float", "bool": "bool"}


@dataclass(frozen=True)
class Leaf:
    """A number or an array.

    ``dims``: the sizes of an array; equal names stand for equal sizes.  ``like``: for an array with the shape of an
    argument, the number of that leaf among the arguments; its sizes are not passed.  ``shared``: part of the structure
    of a tree, which the body returns with gradients, but the C function does not.
    """

    name: str
    type: Scalar | Array
    dims: tuple[Dim, ...] = ()
    like: int | None = None
    shared: bool = False

    @property
    def is_array(self) -> bool:
        return isinstance(self.type, Array)

    @property
    def dtype(self) -> Scalar:
        return self.type.dtype if isinstance(self.type, Array) else self.type


@dataclass(frozen=True)
class Links:
    """Members of a packed tree by which memory is addressed, and which are tested before anything reads it.

    They are names of leaves of the struct.  ``column``: references, or with ``spans`` the pool of references of which
    each row has a span ``(start, length)``.  With ``sizes`` the column is a pool of elements instead, of which each row
    has an array with these sizes from ``start`` on.  ``classes``: for each possible class, a column with its rows,
    or "" if it has none; ``null``: −1 is possible.
    """

    column: str
    classes: tuple[tuple[int, str], ...] = ()
    null: bool = False
    spans: tuple[str, str] | None = None
    start: str = ""
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Struct:
    """A tuple, NamedTuple or dataclass as the C struct ``tag``.

    For a packed tree, ``links`` are tested, ``bits`` of a reference hold the class, and ``note`` is for the header.
    """

    name: str
    tag: str
    fields: tuple[Tree, ...]
    links: tuple[Links, ...] = ()
    bits: int = 0
    note: tuple[str, ...] = ()


Tree = Leaf | Struct


@dataclass(frozen=True)
class Part:
    """One parameter of the C function, or one member of a struct: its name, C type and LLVM type."""

    name: str
    c: str
    llvm: str


@dataclass(frozen=True)
class Interface:
    """The C function ``name``: the trees of its arguments and of its results.

    ``about``: its meaning, in words.  ``unused``: results of the body, by number, that the caller does not get.
    """

    name: str
    arguments: tuple[Tree, ...]
    results: tuple[Tree, ...]
    about: str = ""
    unused: frozenset[int] = frozenset()

    def leaves(self) -> list[Leaf]:
        """The leaves of the arguments, in order."""
        return [leaf for tree in self.arguments for leaf in leaves(tree)]

    def parts(self) -> list[Part]:
        """The parameters of the C function."""
        return [p for tree in self.arguments for p in parts(tree, False)] + [
            p for tree in self.results for p in parts(tree, True)]

    def structs(self) -> list[tuple[Struct, bool]]:
        """The structs that the function needs, inner ones first; True for those of results."""
        found = [(s, False) for tree in self.arguments for s in structs(tree)]
        return found + [(s, True) for tree in self.results for s in structs(tree)]


def leaves(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        for field in tree.fields:
            yield from leaves(field)


def structs(tree: Tree) -> Iterator[Struct]:
    """The structs of a tree, inner ones first."""
    if isinstance(tree, Struct):
        for field in tree.fields:
            yield from structs(field)
        yield tree


def c_type(t: Scalar) -> str:
    """The C type of a number."""
    return _C.get(t.name) or ("int" if t.is_signed else "uint") + f"{t.bits}_t"


def parts(tree: Tree, out: bool) -> list[Part]:
    """The C parameters of a tree; ``out``: of a result."""
    if isinstance(tree, Struct):
        return [Part(tree.name, f"{'' if out else 'const '}{tree.tag} *", "ptr")]
    if out and not tree.is_array:
        return [Part(tree.name, f"{c_type(tree.dtype)} *", "ptr")]
    return members(tree, out)


def members(tree: Tree, out: bool) -> list[Part]:
    """The members of a struct for a tree in it."""
    if isinstance(tree, Struct):
        return [Part(tree.name, tree.tag, llvm_struct(tree, out))]
    if not tree.is_array:
        return [Part(tree.name, c_type(tree.dtype), types.memory(tree.dtype))]
    pointer = Part(tree.name, f"{'' if out else 'const '}{c_type(tree.dtype)} *", "ptr")
    sizes = [] if tree.like is not None else [
        Part(f"{tree.name}_{k}", "int64_t", "i64") for k in range(len(tree.dims))]
    return [pointer, *sizes]


def llvm_struct(struct: Struct, out: bool) -> str:
    """The LLVM type of a C struct, with the same layout."""
    return "{ " + ", ".join(p.llvm for field in struct.fields for p in members(field, out)) + " }"


def names(parts: Sequence[Part]) -> list[str]:
    return [p.name for p in parts]
