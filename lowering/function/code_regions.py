"""Chooses the regions of a large function that become functions of their own.

An *area* is the function, the body of a loop, or an arm of a branch: code that is entered at one block.  Without the
edges back to that block, its control flow is a graph of blocks and loops.  A *cut* is a block outside of the area's
loops that all paths through the area pass, except those that leave it.  A *region* is the code from one cut to another,
if all its edges lead into it, to the second cut and to the failure exit.

The code from one cut to the next one may be large itself: its loops and its arms are areas in turn.  An innermost loop
that LLVM may vectorise stays whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from ...ir.dominance import strongly_connected
from ..llvm.code import Code
from ..llvm.instruction import Instruction

# Loops of this many times the length of other code are cut.  What crosses the cuts is in memory in each iteration, so
# that loops of 8,000 to 13,000 instructions take 1.1 to 1.25 of the time; longer ones take the more time to compile.
LOOPS = 2
# Regions between others that are kept apart have at least a sixteenth of the usual size: what is left to the function
# stays with the regions' calls in one function, which LLVM's passes visit.
SHORT = 16
_REDUCTIONS = ({"fadd", "fsub"}, {"fmul"}, {"fcmp", "select"})
Edges = Mapping[str, Sequence[str]]
SLOTS = frozenset(("double", "float", "i64", "i32", "i16", "i8", "i1", "ptr"))      # types that a slot can hold


@dataclass(frozen=True)
class Region:
    """Blocks, the first of which is the only entry, and the block outside to which they lead."""

    blocks: list[str]
    after: str


def regions(code: Code, failure: str, size: int, least: int, apart: Set[str], whole: Set[str]) -> list[Region]:
    """The regions of a function, of at least ``size`` instructions each.

    Code between two cuts that has more than ``least`` instructions is cut itself.  ``apart``: the heads of the loops
    that LLVM may vectorise.  These stay whole, and regions with them have no other blocks that could be in another
    region, and may be shorter.  Loops and arms of branches that begin with blocks in ``whole`` stay whole too.
    """
    return _Search(code, failure, size, least, apart, whole).found


class _Search:
    def __init__(self, code: Code, failure: str, size: int, least: int, apart: Set[str], whole: Set[str]
                 ) -> None:
        self.code, self.size, self.least, self.apart, self.whole = code, size, least, apart, whole
        self.following = edges(code, failure)
        self.length = {label: len(code.block(label)) for label in self.following}
        self.found: list[Region] = []
        self._area("entry", set(self.following))

    def _area(self, entry: str, blocks: set[str]) -> None:
        """Find the regions between the cuts of one area.  Its first and last block stay where they are."""
        following = _inside(self.following, blocks, entry)
        groups = cuts(following, entry)
        joined: list[str] = []
        length = 0
        for group, after in pairwise([*groups, [""]]):
            if self._descend(following, group) or group is groups[0] or not self._leads_to(group, after[0]):
                self._found(joined, group[0])
                joined, length = [], 0
            else:
                if joined and self.apart.isdisjoint(joined) != self.apart.isdisjoint(group):
                    self._found(joined, group[0])
                    joined, length = [], 0
                joined += group
                length += self._length(group)
            if length >= self.size:
                self._found(joined, after[0])
                joined, length = [], 0

    def _found(self, blocks: list[str], after: str) -> None:
        if self._length(blocks) * (SHORT if self.apart else 2) >= self.size or not self.apart.isdisjoint(blocks):
            self.found.append(Region(blocks, after))

    def _leads_to(self, group: Sequence[str], after: str) -> bool:
        """True if the group is left only towards ``after`` and the failure exit."""
        within = {*group, after}
        return after != "" and all(
            within.issuperset(self.following[label]) and self.code.successors(label) for label in group)

    def _descend(self, following: Edges, group: list[str]) -> bool:
        """Find regions in the large arms and loops of a group; returns True if there are any."""
        if self._length(group) <= self.least:
            return False
        before = len(self.found)
        inside = _inside(following, set(group), group[0])
        arms = [(arm, reached(inside, arm)) for arm in dict.fromkeys(inside[group[0]])]
        elsewhere: set[str] = set()
        for arm, blocks in arms if len(arms) > 1 else ():
            own = blocks.difference(*(others for other, others in arms if other != arm))
            if arm in own and arm not in self.whole and self._length(own) > self.least:
                self._area(arm, own)
                elsewhere |= own
        for loop in loops(following, group):
            stays = any(loop[0] in blocks for blocks in (elsewhere, self.apart, self.whole))
            if not stays and self._length(loop) > LOOPS * self.least:
                self._area(loop[0], set(loop))
        return len(self.found) > before

    def _length(self, blocks: Iterable[str]) -> int:
        return sum(self.length[label] for label in blocks)


# --- loops ----------------------------------------------------------------------------------------

def edges(code: Code, failure: str) -> dict[str, list[str]]:
    """The successors of each block, without the failure exit."""
    return {label: [s for s in code.successors(label) if s != failure] for label in code.labels() if label != failure}


def loops(following: Edges, blocks: Sequence[str]) -> list[list[str]]:
    """The outermost loops among blocks that are entered at the first one; each begins with its head."""
    found = strongly_connected(_inside(following, set(blocks)), blocks[:1])
    return [c for c in found if len(c) > 1 or c[0] in following[c[0]]]


def all_loops(following: Edges) -> tuple[list[list[str]], list[list[str]]]:
    """The loops of a function, those within others too, and the innermost of them."""
    found = loops(following, ["entry", *(label for label in following if label != "entry")])
    innermost: list[list[str]] = []
    for loop in found:                                       # which grows meanwhile
        inner = _inner(following, loop)
        found += inner
        if not inner:
            innermost.append(loop)
    return found, innermost


def _inner(following: Edges, loop: Sequence[str]) -> list[list[str]]:
    return [] if len(loop) == 1 else loops(_inside(following, set(loop), loop[0]), loop)


def split_long_blocks(code: Code, loops: Sequence[Sequence[str]], apart: Set[str], size: int, least: int) -> None:
    """Split long blocks into blocks of ``size`` instructions, those of loops where the loop is cut.

    ``loops``: all loops, which keep their heads; ``apart``: see ``regions``.
    """
    long = {label for label in code.labels() if len(code.block(label)) > 2 * size}
    for loop in reversed(loops) if long else ():                          # inner ones first
        length = sum(len(code.block(label)) for label in loop)
        if length > LOOPS * least and loop[0] not in apart:
            for label in long.intersection(loop):
                code.split(label, _bounds(code.block(label), size))
        long.difference_update(loop)
    for label in sorted(long):
        code.split(label, _bounds(code.block(label), size))


def _bounds(lines: Sequence[Instruction], size: int) -> list[int]:
    """The places at which a block is split; no vector or struct crosses them."""
    last = {name: k for k, i in enumerate(lines) for name in i.reads()}
    bounds, free = [0], 0
    for k, i in enumerate(lines):
        if k >= max(bounds[-1] + size, free) or k == len(lines) - 1 >= free:
            bounds.append(k)
        if i.result and i.type not in SLOTS:
            free = max(free, last.get(i.result, k) + 1)
    return bounds


def may_be_vectorised(code: Code, loop: Sequence[str]) -> bool:
    """True unless an innermost loop carries a float through more than a sum, a product or an extreme."""
    within = set(loop)
    carried = {name: type in ("double", "float") for name, type, _ in code.phis_of(loop[0])}
    readers: dict[str, list[str]] = {}
    opcode: dict[str, str] = {}
    for name, kind, reads in _values(code, loop, within):
        opcode[name] = kind
        for read in reads:
            readers.setdefault(read, []).append(name)
    for name in (name for name, is_float in carried.items() if is_float):
        chain = reached(readers, name)
        if name in {reader for member in chain for reader in readers.get(member, ())}:
            circle = _ending_at(chain, readers, name)
            if not any({opcode[member] for member in circle} - {"phi"} <= kinds for kinds in _REDUCTIONS):
                return False
    return True


def _values(code: Code, loop: Sequence[str], within: set[str]) -> Iterator[tuple[str, str, list[str]]]:
    """The values that a loop computes: name, opcode and operands.  A phi reads what comes from the loop."""
    for label in loop:
        for name, _, incoming in code.phis_of(label):
            yield name, "phi", [value for value, source in incoming if source in within]
        for i in code.block(label):
            if i.result:
                yield i.result, i.opcode, i.reads()


def _ending_at(chain: set[str], readers: Edges, end: str) -> set[str]:
    """The members of a set that ``end`` depends on."""
    reads: dict[str, list[str]] = {}
    for member in chain:
        for reader in readers.get(member, ()):
            reads.setdefault(reader, []).append(member)
    return reached(reads, end)


# --- graphs -----------------------------------------------------------------------------------------

def _inside(following: Edges, blocks: set[str], entry: str = "") -> dict[str, list[str]]:
    """The edges among some blocks, without those to ``entry``."""
    return {label: [s for s in following[label] if s in blocks and s != entry] for label in blocks}


def reached(following: Edges, start: str) -> set[str]:
    """The nodes that can be reached from ``start``, which is one of them."""
    found, todo = {start}, [start]
    while todo:
        new = [s for s in following.get(todo.pop(), ()) if s not in found]
        found.update(new)
        todo += new
    return found


def cuts(following: Edges, entry: str) -> list[list[str]]:
    """The reachable blocks in groups: each begins with a block in no loop that all paths pass.

    Edges of blocks that precede it in topological order then lead to that block or to preceding ones.
    """
    groups: list[list[str]] = []
    position: dict[str, int] = {}
    components = strongly_connected(following, [entry])
    for i, component in enumerate(components):
        position |= dict.fromkeys(component, i)
    furthest = 0
    for i, component in enumerate(components):
        alone = len(component) == 1 and component[0] not in following[component[0]]
        if not groups or (alone and furthest <= i):
            groups.append([])
        groups[-1] += component
        furthest = max([furthest, *(position[s] for label in component for s in following[label])])
    return groups
