"""All of ``tests/filetests/``, one test a file; ``filetest.py`` says what they look like."""

from pathlib import Path

import pytest

from tests.ir import filetest

HERE = Path(__file__).parent.parent / "filetests"
FILES = sorted(HERE.rglob("*.ir"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HERE)))
def test_file(path: Path) -> None:
    filetest.check(filetest.read(path))
