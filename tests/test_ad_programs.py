"""Gradients of random Python programs and of those that once went wrong, checked in every way (``adcheck.py``).

``python -m tests.fuzz`` runs more of the random ones, and makes small what it finds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import adcheck, adgen, kernelgen

SEEDS = int(os.environ.get("JITAD_FUZZ", "12"))
BLOCK = 6
PROGRAMS = Path(__file__).with_name("ad_programs.txt").read_text().split("\n# --- ")[1:]


@pytest.mark.parametrize("block", range(0, SEEDS, BLOCK))
def test_random_programs(block: int) -> None:
    seeds = range(block, min(block + BLOCK, SEEDS))
    verdicts = {s: adcheck.verdict(adcheck.load(adgen.program(s, 5), f"<program {s}>"), s % 6 == 1) for s in seeds}
    assert not {s: v for s, v in verdicts.items() if v.startswith("wrong")}
    assert sum(v == "ok" for v in verdicts.values()) >= 1


@pytest.mark.parametrize("block", range(0, SEEDS, BLOCK))
def test_random_kernels(block: int) -> None:
    for s in range(block, min(block + BLOCK, SEEDS)):
        main = adcheck.load(kernelgen.program(s, 2), f"<kernel {s}>")
        assert adcheck.verdict(main, s % 6 == 1, adcheck.LONG) in ("ok", "idle")


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text.split("\n", 1)[0].replace(" ", "_"))
def test_once_wrong(text: str) -> None:
    name, body = text.split("\n", 1)
    main = adcheck.load(f"import math\nimport numpy as np\n{body}", f"<{name}>")
    assert adcheck.verdict(main, second=True) == "ok"
