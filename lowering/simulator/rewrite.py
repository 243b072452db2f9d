"""Prepares the text of an image for the simulator.

* *Sites.*  Barriers, shuffles, ballots and checks get the number of their place in the text as first argument:
  ``@gpu.barrier()`` becomes ``@gpu.at.barrier(i32 3)``.
* *Polls.*  The head of a loop calls ``@gpu.poll()``, a function that may call itself ``@gpu.check_stack()``.
* *Checks* (``checked``).  Each access to memory is preceded by ``@gpu.check.read(i32 site, ptr p, i64 bytes)``,
  ``write`` or ``atomic``, unless the address is obviously that of an ``alloca``.
* *Shared memory.*  Arrays of address space 3 become parts of one array, ``@gpu.shared``.  Two of them may overlap if no
  kernel reaches both.

The text has one instruction a line (a ``switch`` may take several), and a label stands alone on its line.  A comment
``; FILE:LINE`` at the end of a line is the user's source line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...errors import CompileError, Loc
from .types import Types, operand_end, split

_NAME = r'(?:"[^"]*"|[\w.$-]+)'
_GLOBAL = re.compile(rf"@({_NAME}) = ([\w ]*?)(?:addrspace\((\d+)\) )?(global|constant) (.*)")
_DEFINE = re.compile(rf"define [^@]*@({_NAME})\(")
_DECLARE = re.compile(r"declare ([^@]*)@gpu\.([\w.]+)\((.*)\)")
_REFERENCE = re.compile(rf"@({_NAME})")
_LABEL = re.compile(rf"({_NAME}):(?:\s*;.*)?$")
_TARGET = re.compile(rf"label %({_NAME})")
_COMMENT = re.compile(r" ; (\S.*):(\d+)$")
_RESULT = re.compile(rf"\s*(?:(%{_NAME}) = )?(.*)")
_LOCAL_BASE = re.compile(rf"(?:getelementptr [\w ]*?|addrspacecast )[^,]*?,? ?ptr (%{_NAME})")
_MEMORY_CALL = re.compile(r"(?:tail )?call void @llvm\.(memcpy|memmove|memset)\.[^(]*\((.*)\)")
_ADDRESS = re.compile(rf"(ptr(?: addrspace\(\d+\))?).*?([%@]{_NAME}|(?:getelementptr|inttoptr|addrspacecast).*\))")

COLLECTIVE = re.compile(r"@gpu\.(barrier|shuffle_down\.\w+|shuffle_xor\.\w+|ballot)\(")
_ACCESS_CALL = re.compile(r"@gpu\.(read|write|atomic)(_shared)?\(")
SHARED_ALIGN = 16


@dataclass(frozen=True)
class Site:
    """A place in the text: the function, the instruction, and the user's line if it is known."""

    function: str
    text: str
    loc: Loc | None


@dataclass
class Block:
    """The shared memory of a kernel: name, offset and size of each array that it reaches, and the end of the last one.
    """

    arrays: list[tuple[str, int, int]] = field(default_factory=list)
    end: int = 0

    @property
    def size(self) -> int:
        """The bytes of the arrays, which on a device are beside each other."""
        return sum(size for _, _, size in self.arrays)


@dataclass
class Prepared:
    """The text of an image with what the simulator needs to know of it.

    ``shared``: by kernel.  ``dynamic``: the shared array whose size a launch gives, or ``""``.
    ``globals``: an operand, the size, and 1 for constants.  ``collective``: functions that reach a barrier or shuffle.
    ``externals``: result and parameters of each ``@gpu.…`` that is declared.  ``parameters``: their types by function.
    """

    text: str = ""
    sites: list[Site] = field(default_factory=list)
    shared: dict[str, Block] = field(default_factory=dict)
    dynamic: str = ""
    globals: list[tuple[str, int, int]] = field(default_factory=list)
    collective: set[str] = field(default_factory=set)
    externals: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    parameters: dict[str, list[str]] = field(default_factory=dict)


def prepared(text: str, checked: bool) -> Prepared:
    """Prepare the text of an image."""
    return _Rewriter(text, checked).run()


def _plain(name: str) -> str:
    return name.strip('"')


class _Rewriter:
    def __init__(self, text: str, checked: bool) -> None:
        self.lines, self.checked = text.split("\n"), checked
        self.types = Types(self.lines)
        self.out: list[str] = []
        self.result = Prepared()
        self.calls: dict[str, set[str]] = {}
        self.waits: set[str] = set()
        self.dynamic = ""
        self.sizes: dict[str, int] = {}                          # of the shared arrays
        self.places: dict[str, str] = {}

    def run(self) -> Prepared:
        functions = list(self._functions())
        for head, body in functions:
            name = _plain(_match(_DEFINE, head)[1])
            code = [line for line in body if not line.lstrip().startswith(";")]
            self.calls[name] = {_plain(n) for line in code for n in _REFERENCE.findall(line)}
            if any(COLLECTIVE.search(line) for line in code):
                self.waits.add(name)
        for head, body in functions:
            self._function(head, body)
        self._lay_out([_plain(_match(_DEFINE, head)[1]) for head, _ in functions if " internal " not in head])
        self.result.collective = {f for f in self.calls if self.waits & ({f} | self._reached(f))}
        self.result.text = self._placed("\n".join(self.out))
        return self.result

    def _placed(self, text: str) -> str:
        """The text with the shared arrays as parts of one array."""
        return _REFERENCE.sub(lambda m: self.places.get(m[1], m[0]), text) if self.places else text

    def _functions(self) -> Iterator[tuple[str, list[str]]]:
        """The definitions of functions, head and body; what stands outside of them is prepared at once."""
        lines = iter(self.lines)
        for line in lines:
            if line.startswith("define "):
                body = []
                for inner in lines:
                    if inner.rstrip() == "}":
                        break
                    body.append(inner)
                yield line, body
            else:
                self._outside(line)

    def _reached(self, name: str) -> set[str]:
        seen, todo = set[str](), [name]
        while todo:
            new = self.calls.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    # --- outside of functions ---------------------------------------------------------------------

    def _outside(self, line: str) -> None:
        if m := _DECLARE.match(line):
            result = self.types.first(m[1].strip() or "void")
            self.result.externals[m[2]] = result, tuple(self.types.first(p) for p in split(m[3]))
        elif (m := _GLOBAL.match(line)) and not _plain(m[1]).startswith("llvm."):
            self._global(line, m)
        else:
            self.out.append(line)

    def _global(self, line: str, m: re.Match[str]) -> None:
        name, space, what = m[1], int(m[3] or 0), m[5]
        of = self.types.first(what)
        size = self.types.size(of)
        if space != 3:
            self.out.append(line)
            at = f"ptr @{name}" if not space else f"ptr addrspacecast (ptr addrspace({space}) @{name} to ptr)"
            self.result.globals.append((at, size, int(m[4] == "constant")))
            return
        if "external" in m[2] and self.result.dynamic:
            raise CompileError("an image has two shared arrays without a size")
        if "external" in m[2]:
            self.result.dynamic = _plain(name)
            self.dynamic = name
            return
        self.sizes[name] = size

    def _lay_out(self, kernels: Sequence[str]) -> None:
        """Place the shared arrays: side by side where one kernel reaches both."""
        reached = {kernel: self._reached(kernel) for kernel in kernels}
        self.result.shared = {kernel: Block() for kernel in kernels}
        last = {self.dynamic: 0} if self.dynamic else {}
        for name, size in (self.sizes | last).items():
            blocks = [self.result.shared[kernel] for kernel in kernels if _plain(name) in reached[kernel]]
            offset = max((block.end for block in blocks), default=0)
            end = -(-(offset + size) // SHARED_ALIGN) * SHARED_ALIGN
            if self.checked:
                end += SHARED_ALIGN                              # distance, so that an index that is too large is found
            for block in blocks:
                block.arrays.append((_plain(name), offset, size))
                block.end = end
            self.places[name] = f"getelementptr (i8, ptr addrspace(3) @gpu.shared, i64 {offset})"

    # --- functions --------------------------------------------------------------------------------

    def _function(self, head: str, body: list[str]) -> None:
        m = _match(_DEFINE, head)
        name = _plain(m[1])
        params = split(head[m.end():operand_end(head, m.end(), ")")])
        self.result.parameters[name] = [self.types.first(p) for p in params]
        self.out.append(re.sub(r"^define (internal |private |external |dso_local |weak_odr |linkonce_odr )*",
                               "define internal ", head))
        heads, local = _loop_heads(body), set[str]()
        first, polls = True, False
        for line in body:
            label = _LABEL.match(line)
            if not label and line.strip() and not line.lstrip().startswith(";"):
                if first and name in self._reached(name):
                    self.out.append("  call void @gpu.check_stack()")
                first = False
                if polls and " = phi " not in line:
                    self.out.append("  call void @gpu.poll()")
                    polls = False
                self._instruction(name, line, local)
            else:
                self.out.append(line)
            if label:
                polls = _plain(label[1]) in heads
        self.out.append("}")

    def _site(self, function: str, line: str) -> int:
        found = _COMMENT.search(line)
        loc = Loc(found[1], int(found[2])) if found else None
        self.result.sites.append(Site(function, line.strip(), loc))
        return len(self.result.sites) - 1

    def _instruction(self, function: str, line: str, local: set[str]) -> None:
        if COLLECTIVE.search(line):
            line = _with_site(line, COLLECTIVE, self._site(function, line))
        elif _ACCESS_CALL.search(line):
            if not self.checked:
                return
            line = _with_site(line, _ACCESS_CALL, self._site(function, line))
        elif self.checked:
            self._check(function, line, local)
        self.out.append(line)

    def _check(self, function: str, line: str, local: set[str]) -> None:
        name, text = _match(_RESULT, line).groups()
        if name and (text.startswith("alloca ") or (m := _LOCAL_BASE.match(text)) and m[1] in local):
            local.add(name)
            return
        for kind, pointer, count in self._accesses(text):
            of, address = _match(_ADDRESS, pointer).groups()
            if address not in local:
                space = "_shared" if "(3)" in of else "" if of == "ptr" else None
                if space is None:
                    cast = f"%gpu.cast.{len(self.result.sites)}"
                    self.out.append(f"  {cast} = addrspacecast {of} {address} to ptr")
                    of, address, space = "ptr", cast, ""
                site = self._site(function, line)
                self.out.append(f"  call void @gpu.check.{kind}{space}(i32 {site}, {of} {address}, {count})")

    def _accesses(self, text: str) -> Iterator[tuple[str, str, str]]:
        """The accesses of an instruction: kind, pointer with its type, number of bytes with its type."""
        word, _, rest = text.partition(" ")
        if word in ("load", "store"):
            atomic = rest.startswith("atomic ")
            rest = rest.removeprefix("atomic ").removeprefix("volatile ")
            parts = split(rest)
            of = self.types.first(parts[0])
            yield "atomic" if atomic else "read" if word == "load" else "write", parts[1], self._bytes(of)
        elif word in ("atomicrmw", "cmpxchg"):
            rest = rest.removeprefix("weak ").removeprefix("volatile ")
            parts = split(rest if word == "cmpxchg" else rest.partition(" ")[2])
            yield "atomic", parts[0], self._bytes(self.types.first(parts[1]))
        elif m := _MEMORY_CALL.match(text):
            args = split(m[2])
            if m[1] != "memset":
                yield "read", args[1], args[2]
            yield "write", args[0], args[2]

    def _bytes(self, of: str) -> str:
        return f"i64 {self.types.size(of)}"


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.match(text)
    if found is None:
        raise CompileError(f"the simulator does not understand this line of an image: {text}")
    return found


def _with_site(line: str, pattern: re.Pattern[str], site: int) -> str:
    """The call with the number of its site as first argument."""
    m = pattern.search(line)
    assert m is not None
    rest = line[m.end():]
    name = m[0].removeprefix("@gpu.")
    return f"{line[:m.start()]}@gpu.at.{name}i32 {site}{'' if rest.startswith(')') else ', '}{rest}"


def _loop_heads(body: list[str]) -> set[str]:
    """The labels to which a later line jumps."""
    seen, heads = set[str](), set[str]()
    for line in body:
        if m := _LABEL.match(line):
            seen.add(_plain(m[1]))
        heads |= seen & {_plain(n) for n in _TARGET.findall(line)}
    return heads
