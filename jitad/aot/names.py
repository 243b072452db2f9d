"""Names that C, C++ and Fortran code can use."""

from __future__ import annotations

from ..errors import UnsupportedError

_RESERVED = frozenset("""alignas alignof and asm auto bool break case catch char class const constexpr continue default
delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new
noexcept not nullptr operator or private protected public register restrict return short signed sizeof static struct
switch template this throw true try typedef typename union unsigned using virtual void volatile while xor""".split())


def c_name(name: str) -> str:
    """``name``, with an underscore behind it if it is reserved in C or C++; raises ``UnsupportedError``."""
    if not (name.isascii() and name.isidentifier()):
        raise UnsupportedError(f"{name!r} is no name in C", hint="pass another name: aot.export(f, …, name=\"f\")")
    return f"{name}_" if name in _RESERVED else name


def distinct(names: list[str], of: str) -> None:
    """Raises ``UnsupportedError`` if two parameters of a C function have the same name."""
    for name in names:
        if names.count(name) > 1:
            raise UnsupportedError(f"two parameters of {of} are called {name} in C",
                                   hint="rename a parameter: x_0 is the first size of the array x")
