"""``python -m bench.gpu [--arch sm_90]``: kernels of jitad beside CUDA by hand, from the machine code of both.

``--registers`` prints the registers and spills on all architectures; ``--write-docs`` puts both tables into the page.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from jitad.lowering.gpu.image import Image, Kernel
from jitad.lowering.gpu.ptx import ARCHITECTURES

from bench.gpu.cases import PROGRAMS
from bench.gpu.listing import Listing, of_cuda, of_image

PAGE = Path(__file__).parent.parent.parent / "docs" / "internals" / "gpu-kernels.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--arch", default="sm_90", choices=ARCHITECTURES)
    parser.add_argument("--registers", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    images = {name: program.image() for name, program in PROGRAMS.items()}
    if options.write_docs:
        write("comparison", comparison(images, options.arch))
        write("registers", register_table(images))
    else:
        print("\n".join(register_table(images) if options.registers else comparison(images, options.arch)))


def ours(name: str, image: Image, arch: str) -> Listing:
    """The listing of a program's kernel."""
    return of_image(image, arch)[main_kernel(image.kernels, PROGRAMS[name].kernel)]


def main_kernel(kernels: Sequence[Kernel], which: int) -> str:
    """The name of the kernel that counts: not one that combines partial results, or takes several elements a thread."""
    return [k.name for k in kernels if not k.name.endswith(("_finish", "_wide"))][which]


def comparison(images: dict[str, Image], arch: str) -> Iterator[str]:
    """A row for each program, in Markdown."""
    cuda = of_cuda(arch)
    yield "| | bytes: CUDA | jitad | instructions: CUDA | jitad | ratio | registers: CUDA | jitad |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, image in images.items():
        a, b = cuda[name], ours(name, image, arch)
        yield (f"| {name} | {a.loads} + {a.stores} | {b.loads} + {b.stores} | {a.instructions} | {b.instructions} | "
               f"{b.instructions / a.instructions:.2f} | {a.registers} | {b.registers} |")


def register_table(images: dict[str, Image]) -> Iterator[str]:
    """Registers, and bytes of spills if there are any, by architecture."""
    yield f"| | {' | '.join(ARCHITECTURES)} |"
    yield "|---" * (1 + len(ARCHITECTURES)) + "|"
    for name, image in images.items():
        found = [ours(name, image, arch) for arch in ARCHITECTURES]
        cells = [f"{x.registers}" + (f", spills {x.spills}" if x.spills else "") for x in found]
        yield f"| {name} | {' | '.join(cells)} |"


def table(part: str) -> dict[str, list[str]]:
    """The rows of a table of the page."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in _part(part).splitlines()[2:]]
    return {row[0]: row[1:] for row in rows}


def _part(part: str) -> str:
    found = re.search(f"<!-- {part} -->\n(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.S)
    assert found is not None
    return found[1]


def write(part: str, rows: Iterator[str]) -> None:
    """Replace a table of the page."""
    text = PAGE.read_text(encoding="utf-8")
    new = "\n".join([f"<!-- {part} -->", *rows, ""])
    PAGE.write_text(re.sub(f"<!-- {part} -->\n.*?(?=<!-- end -->)", lambda _: new, text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
