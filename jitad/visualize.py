"""A module's control flow as a graph in Graphviz's language: a cluster for each function, a box for each block."""

from __future__ import annotations

from .ir.graph import Block, Function, Module
from .ir.text import print_function


def graph(module: Module) -> str:
    """The graph as text, which ``dot -Tsvg`` draws."""
    clusters = [_cluster(i, f) for i, f in enumerate(module.functions.values())]
    return "\n".join(["digraph jitad {", '  node [shape=box, fontname="monospace", fontsize=10];', *clusters, "}"])


def _cluster(number: int, func: Function) -> str:
    names = {b: f"b{number}_{i}" for i, b in enumerate(func.blocks)}
    boxes = [f'    {names[b]} [label="{_escape(text)}"];' for b, text in zip(func.blocks, _block_texts(func))]
    return "\n".join([f"  subgraph cluster_{number} {{", f'    label="{_escape("@" + func.name)}";', *boxes,
                      *(line for b in func.blocks for line in _edges(b, names)), "  }"])


def _block_texts(func: Function) -> list[str]:
    """The printed function, split at block labels."""
    texts: list[list[str]] = []
    for line in print_function(func).splitlines()[1:]:
        if line.lstrip().startswith("^"):
            texts.append([])
        if texts and line.strip() != "}":
            texts[-1].append(line.strip())
    return ["\n".join(lines) for lines in texts]


def _edges(block: Block, names: dict[Block, str]) -> list[str]:
    if block.term is None:
        return []
    labels = {"branch": ["true", "false"]}.get(block.term.name, [""] * len(block.term.edges))
    return [f'    {names[block]} -> {names[e.block]} [label="{label}"];' for e, label in zip(block.term.edges, labels)]


def _escape(text: str) -> str:
    """Escapes text for a label, with lines aligned to the left."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\l") + ("\\l" if "\n" in text else "")
