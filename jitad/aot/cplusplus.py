"""The C++ header of a library: functions that take and return standard containers and throw on errors.

Vectors own the results.  Arrays are passed as ``View``, a pointer with the sizes of an array, which a vector converts
to.  Functions with C structs are called through the C header.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lowering.aot.interface import Interface, Leaf, c_type
from ..lowering.aot.library import Program
from .header import errors_of

_HEAD = """// {name} for C++17: exceptions in place of error codes, vectors in place of memory of the caller.
#ifndef {guard}
#define {guard}

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "{header}"

namespace {name}_library {{

/// An error code of the library, with its text.
class Error : public std::runtime_error {{
public:
    explicit Error(int code) : std::runtime_error({errors}(code)), code(code) {{}}
    int kind() const {{ return JITAD_KIND(code); }}
    const int code;
}};

inline void check(int code) {{
    if (code != 0) throw Error(code);
}}

/// The elements of an array, which somebody else owns, and its sizes.
template <class T, std::size_t Rank> struct View {{
    const T *data;
    std::array<std::int64_t, Rank> sizes;
    View(const T *data, std::array<std::int64_t, Rank> sizes) : data(data), sizes(sizes) {{}}
    template <std::size_t R = Rank, class = std::enable_if_t<R == 1>>
    View(const std::vector<T> &elements)
        : data(elements.data()), sizes{{static_cast<std::int64_t>(elements.size())}} {{}}
    std::size_t size() const {{
        std::size_t n = 1;
        for (auto s : sizes) n *= static_cast<std::size_t>(s < 0 ? 0 : s);
        return n;
    }}
}};
"""


def text(name: str, header: str, programs: Sequence[Program]) -> str:
    """The C++ header; ``header``: the file name of the C header."""
    words = {"name": name, "guard": f"{name.upper()}_HPP", "errors": errors_of(name), "header": header}
    functions = [_function(p.interface) for p in programs if _plain(p.interface)]
    return "\n".join([_HEAD.format(**words), *functions, f"}} // namespace {name}_library", "",
                      f"#endif // {words['guard']}", ""])


def _plain(made: Interface) -> bool:
    return all(isinstance(tree, Leaf) for tree in (*made.arguments, *made.results))


def _function(made: Interface) -> str:
    given, call, before = [], [], []
    for leaf in made.arguments:
        assert isinstance(leaf, Leaf)
        of = c_type(leaf.dtype)
        given.append(f"View<{of}, {len(leaf.dims)}> {leaf.name}" if leaf.is_array else f"{of} {leaf.name}")
        call.append(f"{leaf.name}.data" if leaf.is_array else leaf.name)
        if leaf.is_array and leaf.like is None:
            call += [f"{leaf.name}.sizes[{k}]" for k in range(len(leaf.dims))]
        if leaf.is_array and leaf.like is not None:
            like = made.leaves()[leaf.like].name
            before.append(f"if ({leaf.name}.sizes != {like}.sizes) throw Error(JITAD_SIZE_MISMATCH);")
    members = []
    for leaf in made.results:
        assert isinstance(leaf, Leaf)
        of = c_type(leaf.dtype)
        if not leaf.is_array:
            members.append(f"{of} {leaf.name} = {{}};")
            call.append(f"&out.{leaf.name}")
            continue
        members.append(f"std::vector<{of}> {leaf.name};")
        if leaf.like is not None:
            before.append(f"out.{leaf.name}.resize({made.leaves()[leaf.like].name}.size());")
            call.append(f"out.{leaf.name}.data()")
        else:
            given.append(f"std::array<std::int64_t, {len(leaf.dims)}> sizes_of_{leaf.name}")
            sizes = [f"sizes_of_{leaf.name}[{k}]" for k in range(len(leaf.dims))]
            product = " * ".join(f"static_cast<std::size_t>({n})" for n in sizes)
            before.append(f"out.{leaf.name}.resize({product});")
            call += [f"out.{leaf.name}.data()", *sizes]
    return "\n".join([
        f"struct {made.name}_out {{", *(f"    {m}" for m in members), "};", "",
        f"/// {made.about}", f"inline {made.name}_out {made.name}({', '.join(given)}) {{",
        f"    {made.name}_out out;",
        *(f"    {line}" for line in before), f"    check(::{made.name}({', '.join(call)}));",
        "    return out;", "}", ""])
