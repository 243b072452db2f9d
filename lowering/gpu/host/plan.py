"""The printed plan of a program: each kernel with its line and its grid, and what the host does itself, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....errors import Loc
from ..image import Kernel


@dataclass
class Plan:
    """Entries in the order of the program: a location, a title, lines of details."""

    entries: list[tuple[Loc, str, tuple[str, ...]]] = field(default_factory=list)

    def kernel(self, kernel: Kernel, grid: str, does: str) -> None:
        details = (f"grid {grid}, {kernel.block} threads a block" if kernel.block > 1 else grid,
                   f"parameters {', '.join(kernel.params)}")
        self.entries.append((kernel.loc, f"kernel {kernel.name}: {does}", details))

    def host(self, loc: Loc, does: str) -> None:
        entry = (loc, f"host: {does}", ())
        if entry not in self.entries:
            self.entries.append(entry)

    def text(self) -> str:
        out = []
        for loc, title, details in self.entries:
            where = f"{loc.file}:{loc.line}: " if loc.line else ""
            out += [f"{where}{title}", *(f"    {d}" for d in details)]
        return "\n".join(out or ["host: everything, since there is no array and no loop"]) + "\n"
