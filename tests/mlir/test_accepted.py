"""``mlir-opt`` accepts the text of every program: ordinary programs, values and gradients, and random ones."""

from __future__ import annotations

import pytest

from bench.ordinary import FIELDS
from jitad import value_and_grad
from tests.loop_level.test_programs import programs, smaller
from tests.mlir.comparing import case, compare
from tests.mlir.tools import accept, needs_mlir


@needs_mlir
@pytest.mark.parametrize("name", FIELDS)
def test_ordinary_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is accepted, and means the same as machine code, with arguments cut down."""
    cases = []
    for p in programs(name, monkeypatch):
        args = [smaller(a) for a in p.args]
        for f in [p.function, *([value_and_grad(p.function, p.grad)] if p.grad else [])]:
            cases.append(case(p.name, f, *args))
    accept(c.text for c in cases)
    compare(cases)
