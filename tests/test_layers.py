"""Imports run one way, and stand at the head of the file.

``errors < ir < semantics, ad, passes, cps < frontend < pipeline < lowering < api``; the analyses of
``passes`` serve ``ad`` and ``cps``, ``kernels`` serves ``lowering``, and ``semantics`` sees nothing of what it
judges.  A heavy library that only some calls need may be imported inside a function; a module of this project may
not, but in the public face, so that ``import jitad`` stays quick.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (("errors",), ("ir",), ("semantics",), ("passes",), ("cps",), ("ad",), ("frontend", "pytree"), ("pipeline",),
          ("kernels",), ("lowering",), ("api",), ("__init__", "__main__"))
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
TREES = {"jitad": ROOT / "jitad", "jitad.lowering": ROOT / "lowering", "jitad.kernels": ROOT / "kernels"}
FILES = [(prefix, file) for prefix, folder in TREES.items() for file in sorted(folder.rglob("*.py"))]


def module_name(prefix: str, file: Path) -> str:
    return ".".join([prefix, *file.relative_to(TREES[prefix]).with_suffix("").parts])


def layer(module: str) -> str:
    """The first name under ``jitad``; what is not listed above belongs to the public face, with ``api``."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else "__init__"
    return name if name in LEVEL else "api"


def imported(node: ast.AST, module: str) -> Iterator[str]:
    """The modules of this project that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names if a.name.split(".")[0] == "jitad")
    elif isinstance(node, ast.ImportFrom):
        base = module.split(".")[:-node.level] if node.level else []
        name = ".".join(base + (node.module.split(".") if node.module else []))
        if name == "jitad":                                 # from . import errors: the names are modules
            yield from (f"jitad.{a.name}" for a in node.names)
        elif name.startswith("jitad."):
            yield name


def nodes(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it stands in a function; what only a type checker reads is left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child, inside
        yield from nodes(child, inside or isinstance(child, (ast.FunctionDef, ast.Lambda)))


@pytest.mark.parametrize("prefix, file", FILES, ids=lambda p: str(p.relative_to(ROOT)) if isinstance(p, Path) else "")
def test_imports_run_one_way(prefix: str, file: Path) -> None:
    module = module_name(prefix, file)
    mine = layer(module)
    for node, inside in nodes(ast.parse(file.read_text(encoding="utf-8"))):
        for other in imported(node, module):
            where = f"{file.relative_to(ROOT)}:{node.lineno} imports {other}"           # type: ignore[attr-defined]
            assert not inside or LEVEL[mine] >= LEVEL["api"], f"{where} inside a function"
            theirs = layer(other)
            assert LEVEL[theirs] <= LEVEL[mine], f"{where}, which stands above or beside {mine}"


def test_every_subpackage_is_in_a_layer() -> None:
    subpackages = {f.parent.name for f in (ROOT / "jitad").glob("*/__init__.py")} | {"lowering", "kernels"}
    assert subpackages <= LEVEL.keys()


def test_an_installed_copy_has_every_package() -> None:
    """``pyproject.toml`` names them one by one, since two of them stand at the top of the repository."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {module_name(prefix, file.parent) if file.parent != TREES[prefix] else prefix
             for prefix, file in FILES if file.name == "__init__.py"}
    assert set(listed) == there
