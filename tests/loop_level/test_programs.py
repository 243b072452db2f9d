"""Programs and their gradients mean the same at the loop level: ordinary programs, examples, options of ``jit``.

``tests/fuzzing`` runs random programs, and earlier failures, at this level.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.case import Bench
from bench.ordinary import FIELDS
from bench.ordinary.program import Ordinary
from examples import char_rnn, gmm, treelstm
from jitad import hessian, jit, value_and_grad
from tests.loop_level.running import agree

SIZE = 4


def smaller(x: Any) -> Any:
    """An argument cut down: no axis, and no number of steps, above ``SIZE``."""
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x[tuple(slice(0, SIZE) for _ in x.shape)])
    return min(x, SIZE) if type(x) is int else x


def programs(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Ordinary]:
    """The programs of a field of ordinary programs."""
    found: list[Ordinary] = []

    def keep(bench: Bench, field: str, given: list[Ordinary]) -> Iterator[Any]:
        found.extend(given)
        return iter(())
    field = importlib.import_module(f"bench.ordinary.{name}")
    monkeypatch.setattr(field, "of_programs", keep)
    list(field.cases(None))
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", FIELDS)
def test_ordinary_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with arguments cut down; those that it refuses, it refuses alike."""
    found = programs(name, monkeypatch)
    assert found
    for p in found:
        args = [smaller(a) for a in p.args]
        agree(value_and_grad(p.function, p.grad) if p.grad else p.function, *args)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", FIELDS)
def test_formulations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for p in programs(name, monkeypatch):
        for label, f in p.formulations.items():
            args = [smaller(a) for a in p.others.get(label, p.args)]
            agree(value_and_grad(f, p.grad) if p.grad else f, *args)


@pytest.mark.long
@pytest.mark.slow
def test_examples() -> None:
    rng = np.random.default_rng(0)
    mixture = gmm.Mixture(rng.normal(size=3), rng.normal(size=(3, 4)), rng.normal(size=(3, 10)))
    agree(value_and_grad(gmm.gmm_objective), mixture, rng.normal(size=(5, 4)), gmm.Prior(1.3, 1))
    text = np.arange(12).reshape(4, 3) % 5
    for kind, loss in ((char_rnn.RNN, char_rnn.rnn_loss), (char_rnn.LSTM, char_rnn.lstm_loss)):
        agree(value_and_grad(loss), char_rnn.make_net(kind, 5, hidden=4, dtype=np.float64), text)
    trees, vocabulary = treelstm.standard_library(most=2)
    net = treelstm.make_net(3, 4, 5, vocabulary, dtype=np.float64)
    agree(value_and_grad(treelstm.tree_and_words_loss), net, min(trees, key=lambda t: len(t.words)))


def rows(a: Any, w: Any) -> float:
    """A loop of independent iterations, a recurrence, and expressions of whole arrays."""
    out = np.zeros(len(a))
    for i in range(len(a)):
        out[i] = np.tanh(a[i] @ w).sum() + a[i, 0]
    state = np.ones(3)
    for i in range(1, len(a)):
        state = np.sin(state) + np.where(w[0] > 0, w[0] * out[i], state[::-1])
        out[i] = state.max() + out[i - 1]
    return float((np.cumsum(out) * out).sum() + np.concatenate((state, out[1:])).prod() + np.sort(out)[1])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"parallel": True}, {"fastmath": True}, {"checkpoint": True},
                                     {"checkpoint": 2}, {"boundscheck": False}], ids=str)
def test_options(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    a, w = rng.normal(size=(5, 4)), rng.normal(size=(4, 3))
    agree(jit(rows, grad=True, **options).value_and_grad, a, w, rtol=1e-8)
    agree(hessian(lambda x: rows(a * x, w)), 1.2, rtol=1e-7)
