"""The example of the documentation, by the commands that it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc on the path, which compiles the C program")
def test_the_commands(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ahead-of-time.md").read_text(encoding="utf-8")
    commands, session = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    run, _, shown = session.partition("\n")
    for file in (ROOT / "examples" / "c").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for command in [*commands.strip().split("\n"), run]:
        command = re.sub(r"^python\b", sys.executable, command)
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=paths)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert done.stdout == shown
    read = subprocess.run(["cc", "-M", "minimise.c"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "loss.h" in read and "ython" not in read.replace(str(tmp_path), "")      # no headers of Python
