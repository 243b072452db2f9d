"""``docs/refused.md``: each example is refused with the message on the page, and each alternative works.

``BLESS=1`` writes the messages and results again: read the diff.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

import jitad

pytestmark = pytest.mark.any_level

PAGE = Path(__file__).parent.parent.parent / "docs" / "refused.md"
EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:```text\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL)
FILE = "example.py"


def outcome(code: str, scope: dict[str, Any]) -> tuple[str, BaseException | None]:
    """The output of an example, including the message of its error."""
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, FILE, "exec"), scope)
        except Exception as e:
            error = e
            message = "".join(traceback.format_exception_only(e)).removeprefix("jitad.errors.")
            print("".join(f"{line.rstrip()}\n" for line in message.splitlines()), end="")
    return printed.getvalue(), error


@pytest.mark.slow
def test_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parent)
    page = PAGE.read_text(encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "refused"}
    refused, fresh, end = 0, "", 0
    for example in EXAMPLE.finditer(page):
        found, error = outcome(example["code"], scope)
        if os.environ.get("BLESS") and example["shown"] is not None:
            fresh += page[end:example.start("shown")] + found
            end = example.end("shown")
            continue
        line = page[:example.start()].count("\n") + 1
        assert found == (example["shown"] or ""), f"{PAGE.name}:{line}"
        if error is not None:
            assert isinstance(error, jitad.JitadError), f"{PAGE.name}:{line}: {error!r}"
            assert "\n    " in found and "^" in found and "  Instead: " in found, f"{PAGE.name}:{line}"
            refused += 1
    if end:
        PAGE.write_text(fresh + page[end:], encoding="utf-8")
        pytest.fail("the page has been written anew")
    assert refused >= 50
