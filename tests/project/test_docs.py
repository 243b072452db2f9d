"""Every Python snippet of the documentation runs, page by page in one namespace, and prints what the page says.

A block ```` ```python ```` runs; after it, a block ```` ```text ```` is what it prints, where "…" stands for anything.
Where a page shows an error, the block runs until it is raised, and its message is what is printed.  A block
```` ```ir ```` is the file that its first line names; in a block ```` ```console ````, the lines after
``$ python -m jitad`` are commands, and the others are what they print.  Blocks of other kinds (```` ```py ````,
```` ```sh ````) are only shown.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import shlex
import sys
import traceback
import types
from pathlib import Path

import pytest

import jitad
from jitad.command_line.main import main

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.name != "refused.md")]  # has a test
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(code: str, name: str, scope: dict[str, object], source: str) -> str:
    """The output of the snippet, or the message of the error that it raises.  ``source``: the lines of the page."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, name, "exec", dont_inherit=True), scope)
        except (jitad.JitadError, ArithmeticError, LookupError, ValueError, RecursionError) as e:
            print("".join(traceback.format_exception_only(e)).removeprefix("jitad.errors."), end="")
    return printed.getvalue()


def python_of(page: str) -> str:
    """The page's snippets, each in its lines; the other lines are empty."""
    lines = [""] * (page.count("\n") + 1)
    for block in BLOCK.finditer(page):
        if block[1] == "python":
            first = page[:block.start(2)].count("\n")
            lines[first:first + block[2].count("\n")] = block[2].splitlines()
    return "\n".join(lines)


def matches(expected: str, printed: str) -> bool:
    """Equal up to space at the ends of lines and what "…" stands for."""
    tidy = "\n".join(line.rstrip() for line in printed.strip().split("\n"))
    wanted = "\n".join(line.rstrip() for line in expected.strip().split("\n"))
    return re.fullmatch(".*?".join(map(re.escape, wanted.split("…"))), tidy, re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_snippets(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)          # where annotations are evaluated
    scope = vars(module)
    printed = ""
    text = page.read_text(encoding="utf-8")
    source = python_of(text)
    for block in BLOCK.finditer(text):
        kind, code = block.groups()
        if kind == "python":
            line = text[:block.start(2)].count("\n")
            printed = run("\n" * line + code, f"<{page.name}>", scope, source)
            follows = re.match(r"\s*^```text$", text[block.end():], re.MULTILINE)
            assert follows or not printed, f"{page.name}:{line} prints what the page does not show:\n{printed}"
        elif kind == "text" and printed:
            assert matches(code, printed), f"the page says\n{code}\nand the program\n{printed}"
            printed = ""


def commands(block: str) -> list[tuple[list[str], str]]:
    """The commands in a block ``console``, and what they print."""
    parts = re.split(r"^\$ python -m jitad (.*)\n", block, flags=re.MULTILINE)
    assert not parts[0]
    return [(shlex.split(command), printed) for command, printed in zip(parts[1::2], parts[2::2])]


@pytest.mark.parametrize("page", [p for p in PAGES if "```console\n" in p.read_text()], ids=lambda p: p.name)
def test_commands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in BLOCK.finditer(page.read_text()):
        if block[1] == "ir":
            Path(block[2].partition("\n")[0].removeprefix("; ")).write_text(block[2])
        for command, expected in commands(block[2]) if block[1] == "console" else ():
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                main(command)
            assert matches(expected, printed.getvalue()), f"{command} prints\n{printed.getvalue()}"
