"""``mlir-opt`` accepts the text of every program, gradients included, and machine code from it means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.ordinary import FIELDS
from examples import char_rnn, gmm, treelstm
from jitad import hessian, jit, value_and_grad
from tests.language.test_growing_lists import PROGRAMS as GROWING_LISTS
from tests.loop_level.test_programs import programs, rows, smaller
from tests.mlir.comparing import case, compare
from tests.mlir.tools import accept, needs_mlir


@pytest.mark.slow
@pytest.mark.long
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


@pytest.mark.long
@needs_mlir
@pytest.mark.slow
@pytest.mark.parametrize("name", FIELDS)
def test_formulations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some sum numbers of float32, whose last digits depend on the C library."""
    cases = []
    for p in programs(name, monkeypatch):
        for label, f in p.formulations.items():
            args = [smaller(a) for a in p.others.get(label, p.args)]
            cases.append(case(f"{p.name} {label}", value_and_grad(f, p.grad) if p.grad else f, *args))
    accept(c.text for c in cases)
    compare(cases, rtol=1e-7)


@pytest.mark.long
@pytest.mark.slow
@needs_mlir
def test_examples() -> None:
    """Recursion, stacks on stacks, records."""
    rng = np.random.default_rng(0)
    mixture = gmm.Mixture(rng.normal(size=3), rng.normal(size=(3, 4)), rng.normal(size=(3, 10)))
    trees, vocabulary = treelstm.standard_library(most=2)
    tree = min(trees, key=lambda t: len(t.words))
    text = np.arange(12).reshape(4, 3) % 5
    cases = [
        case("gmm", value_and_grad(gmm.gmm_objective), mixture, rng.normal(size=(5, 4)), gmm.Prior(1.3, 1)),
        case("tree", value_and_grad(treelstm.tree_and_words_loss),
             treelstm.make_net(3, 4, 5, vocabulary, dtype=np.float64), tree),
        *(case("rnn", value_and_grad(loss), char_rnn.make_net(kind, 5, hidden=4, dtype=np.float64), text)
          for kind, loss in ((char_rnn.RNN, char_rnn.rnn_loss), (char_rnn.LSTM, char_rnn.lstm_loss)))]
    accept(c.text for c in cases)
    compare(cases)


@pytest.mark.long
@pytest.mark.slow
@needs_mlir
def test_lists_that_grow() -> None:
    cases = [case(f.__name__, value_and_grad(f), 0.7) for f in GROWING_LISTS]
    accept(c.text for c in cases)
    compare(cases)


@pytest.mark.long
@pytest.mark.slow
@needs_mlir
def test_options() -> None:
    rng = np.random.default_rng(3)
    a, w = rng.normal(size=(5, 4)), rng.normal(size=(4, 3))
    options: list[dict[str, Any]] = [{}, {"parallel": True}, {"fastmath": True}, {"checkpoint": True},
                                     {"checkpoint": 2}, {"boundscheck": False}]
    cases = [case(str(o), jit(rows, grad=True, **o).value_and_grad, a, w) for o in options]
    cases.append(case("hessian", hessian(lambda x: rows(a * x, w)), 1.2))
    accept(c.text for c in cases)
    compare(cases, rtol=1e-7)
