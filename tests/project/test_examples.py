"""The example programs with little work: they run, learn and draw; their objectives have known values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples import char_rnn, gmm, training, treelstm
from examples.training import Run
from jitad import check_grads, jit

SHARED = Path(__file__).parent.parent.parent.parent / "shared" / "data"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("program, steps", [(gmm.run, 30), (char_rnn.run_rnn, 60), (char_rnn.run_lstm, 60),
                                            (treelstm.run, 200)])
def test_learns(program: object, steps: int) -> None:
    run: Run = program(steps=steps)                                                         # type: ignore[operator]
    assert len(run.losses) == steps and np.all(np.isfinite(run.losses))
    third = steps // 3
    assert np.mean(run.losses[-third:]) < np.mean(run.losses[:third])


@pytest.mark.slow
def test_closing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = training.Value(2.0, 0.001, True)
    runs = [Run(name, "data", list(np.linspace(3, 1, 50)), 1.0, 0.001, 1.0, value) for name in ("one", "two")]
    training.close(runs, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "2,000.0×" in capsys.readouterr().out


def small_mixture() -> tuple[gmm.Mixture, np.ndarray, gmm.Prior]:
    rng = np.random.default_rng(0)
    mixture = gmm.Mixture(rng.normal(size=3), rng.normal(size=(3, 4)), rng.normal(size=(3, 10)))
    return mixture, rng.normal(size=(5, 4)), gmm.Prior(1.3, 1)


@pytest.mark.slow
def test_mixture_against_matrices() -> None:
    """The loops against the formula with whole matrices."""
    (alphas, means, icf), points, prior = small_mixture()
    lower = np.zeros((3, 4, 4))
    columns, rows = np.triu_indices(4, 1)
    lower[:, rows, columns] = icf[:, 4:]
    lower[:, range(4), range(4)] = np.exp(icf[:, :4])
    scaled = np.einsum("krc,nkc->nkr", lower, points[:, None] - means)
    terms = alphas + icf[:, :4].sum(1) - 0.5 * (scaled ** 2).sum(2)
    expected = np.log(np.exp(terms).sum(1)).sum() - 5 * np.log(np.exp(alphas).sum()) - 10 * np.log(2 * np.pi)
    expected += gmm.log_wishart(icf, 4, prior)
    assert gmm.gmm_objective(gmm.Mixture(alphas, means, icf), points, prior) == pytest.approx(expected, rel=1e-12)
    assert jit(gmm.gmm_objective)(gmm.Mixture(alphas, means, icf), points, prior) == pytest.approx(expected, rel=1e-12)


@pytest.mark.long
@pytest.mark.slow
def test_gradients() -> None:
    mixture, points, prior = small_mixture()
    check_grads(gmm.gmm_objective, (mixture, points, prior), order=2, modes=("rev",))
    text = np.arange(12).reshape(4, 3) % 5
    for kind, loss in ((char_rnn.RNN, char_rnn.rnn_loss), (char_rnn.LSTM, char_rnn.lstm_loss)):
        net = char_rnn.make_net(kind, 5, hidden=4, dtype=np.float64)
        check_grads(loss, (net, text), order=1)
    trees, vocabulary = treelstm.standard_library(most=2)
    tree = min(trees, key=lambda t: len(t.words))
    net = treelstm.make_net(3, 4, 5, vocabulary, dtype=np.float64)
    check_grads(treelstm.tree_and_words_loss, (net, tree), order=1)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="ADBench's instances are not beside the repository")
def test_adbench_value() -> None:
    mixture, points, prior = gmm.load_adbench(SHARED / "adbench/gmm/gmm_d10_K25.txt")
    assert jit(gmm.gmm_objective)(mixture, points, prior) == pytest.approx(-25649.65262120, rel=1e-11)
