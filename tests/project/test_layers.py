"""Imports run one way, and stand at the head of the file.

``errors < ir < semantics, ad, passes, cps < frontend < pipeline < lowering, loop_level < mlir < calling, caching,
api``; the analyses of ``passes`` serve ``ad`` and ``cps``, ``kernels`` serves ``lowering``, and ``semantics`` sees
nothing of what it judges.  A heavy library that only some calls need may be imported inside a function; a module of
this project may not, but in the public face, so that ``import jitad`` and calls of cached functions stay quick.

Inside the lowering and the passes the folders have an order too.  There, and for knots of modules that import each
other, what only a type checker reads counts as well: who reads a file has to know what its annotations name.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LAYERS = (("errors", "disk_store", "locks", "compiler_threads"), ("ir",), ("semantics",), ("passes",), ("cps",),
          ("ad",), ("frontend", "pytree"), ("pipeline",), ("kernels",), ("lowering", "loop_level"), ("mlir",),
          ("api", "caching", "calling", "separate", "gpu", "pickling", "aot"),
          ("__init__", "__main__", "command_line"))
# Folders in their order: each imports only those before it.
FOLDERS = {
    "jitad.lowering": ("llvm", "math", "planning", "builder", "memory", "threads", "matmul", "loops", "function",
                       "python", "jit", "gpu", "simulator", "aot"),
    "jitad.passes": ("analysis", "memory", "buffers", "cleanup", "shapes", "induction", "choices", "branches", "loops",
                     "nests", "algebra", "vectorise", "parallel")}
FILES_IN_A_FOLDER = 16
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
TREES = {"jitad": ROOT / "jitad", "jitad.lowering": ROOT / "lowering", "jitad.kernels": ROOT / "kernels"}
FILES = [(prefix, file) for prefix, folder in TREES.items() for file in sorted(folder.rglob("*.py"))]


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def module_name(prefix: str, file: Path) -> str:
    return ".".join([prefix, *file.relative_to(TREES[prefix]).with_suffix("").parts])


def layer(module: str) -> str:
    """The first name under ``jitad``; names that are not listed above are public modules, like ``api``."""
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else "__init__"
    return name if name in LEVEL else "api"


MODULES = {module_name(prefix, file).removesuffix(".__init__"): file for prefix, file in FILES}


def imported_modules(module: str) -> Iterator[str]:
    """The modules of this project that a module imports anywhere, annotations included."""
    file = MODULES[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            for a in node.names:
                yield from (m for m in (f"{base}.{a.name}", base)[:1 if f"{base}.{a.name}" in MODULES else 2]
                            if m in MODULES and m != module)


@cache
def imports() -> dict[str, set[str]]:
    return {module: set(imported_modules(module)) for module in MODULES}


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


def statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool]]:
    """All statements, with a flag for those inside a function; what is for type checkers only is omitted."""
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    for node, inside in todo:                                   # grows
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
                    yield child, inside
                    todo.append((child, inside or isinstance(child, ast.FunctionDef)))
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                todo.append((child, inside))


@pytest.mark.slow
def test_imports_run_one_way() -> None:
    for prefix, file in FILES:
        module = module_name(prefix, file)
        mine = layer(module)
        for node, inside in statements(tree_of(file)):
            for other in imported(node, module):
                where = f"{file.relative_to(ROOT)}:{node.lineno} imports {other}"
                assert not inside or LEVEL[mine] >= LEVEL["api"], f"{where} inside a function"
                theirs = layer(other)
                assert LEVEL[theirs] <= LEVEL[mine], f"{where}, which stands above or beside {mine}"


def within(tree: str) -> Iterator[tuple[str, str]]:
    """The imports from one folder of a tree to another, as names within the tree: ``a.b``, ``c.d``."""
    for module, others in imports().items():
        for other in others if module.startswith(f"{tree}.") else ():
            mine, theirs = module.removeprefix(f"{tree}."), other.removeprefix(f"{tree}.")
            if other.startswith(f"{tree}.") and mine.split(".")[0] != theirs.split(".")[0]:
                yield mine, theirs


@pytest.mark.slow
@pytest.mark.parametrize("tree", FOLDERS)
def test_folders_have_an_order(tree: str) -> None:
    level = {name: k for k, name in enumerate(FOLDERS[tree])}
    assert {module.split(".")[tree.count(".") + 1] for module in MODULES if module.startswith(f"{tree}.")} == {*level}
    for mine, theirs in within(tree):
        assert level[theirs.split(".")[0]] < level[mine.split(".")[0]], f"{tree}: {mine} imports {theirs}"


@pytest.mark.slow
def test_passes_of_different_folders_are_apart() -> None:
    for mine, theirs in within("jitad.passes"):
        assert theirs.split(".")[0] == "analysis", f"passes: {mine} imports {theirs}"


def knots() -> list[set[str]]:
    """The strongly connected components of the import graph with more than one module."""
    reached: dict[str, set[str]] = {}
    for module in MODULES:
        seen, todo = set[str](), [module]
        while todo:
            new = imports()[todo.pop()] - seen
            seen |= new
            todo += new
        reached[module] = seen
    return [knot for module in MODULES if module in reached[module]
            and module == min(knot := {m for m in reached[module] if module in reached[m]})]


@pytest.mark.slow
def test_modules_do_not_import_each_other() -> None:
    assert not [sorted(knot) for knot in knots()]


def test_no_folder_is_crowded() -> None:
    files = Counter(file.parent for _, file in FILES if file.name != "__init__.py")
    crowded = {str(folder.relative_to(ROOT)): n for folder, n in files.items() if n > FILES_IN_A_FOLDER}
    assert not crowded, f"more than {FILES_IN_A_FOLDER} files: {crowded}"


# The folders of the front end, from the bottom: each imports those before it, for type checking too.
FRONT_END = ("columns", "captured", "values", "objects", "callables", "arrays", "trees", "flow", "syntax",
             "operations", "transforms", "trace")


@pytest.mark.slow
def test_the_folders_of_the_front_end_import_one_way() -> None:
    inside = "jitad.frontend."
    files = [(m, f) for m, f in ((module_name(p, f), f) for p, f in FILES) if m.startswith(inside)]
    assert {m.split(".")[2] for m, _ in files} == {*FRONT_END, "__init__"}
    for module, file in files:
        for node in ast.walk(tree_of(file)):
            for other in imported(node, module):
                here, there = (m.removeprefix(inside).split(".")[0] for m in (module, other))
                if other.startswith(inside) and here != "__init__":
                    assert FRONT_END.index(there) <= FRONT_END.index(here), f"{module} imports {other}"


def test_every_subpackage_is_in_a_layer() -> None:
    subpackages = {f.parent.name for f in (ROOT / "jitad").glob("*/__init__.py")} | {"lowering", "kernels"}
    assert subpackages <= LEVEL.keys()


def test_an_installed_copy_has_every_package() -> None:
    """``pyproject.toml`` names them one by one, since two of them are at the top of the repository."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {module_name(prefix, file.parent) if file.parent != TREES[prefix] else prefix
             for prefix, file in FILES if file.name == "__init__.py"}
    assert set(listed) == there
