"""A character RNN and a character LSTM: hidden 50, sequences and batches of 20, Adagrad 0.1, gradients clipped at ±5.

A row of the state belongs to one sequence of the batch; the sequence is walked by a plain ``for`` loop.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from examples.training import Run, adagrad, cli, compare, train
from jitad import jit

Floats = NDArray[Any]
Ints = NDArray[np.int64]
HIDDEN, LENGTH, BATCH = 50, 20, 20


class RNN(NamedTuple):
    inputs: Floats          # (characters, hidden): row c is what character c adds to the state
    hidden: Floats          # (hidden, hidden)
    bias: Floats
    out: Floats             # (hidden, characters)
    out_bias: Floats


class LSTM(NamedTuple):
    inputs: Floats          # (characters, 4 hidden): input, forget and output gates, then candidates
    hidden: Floats          # (hidden, 4 hidden)
    bias: Floats
    out: Floats
    out_bias: Floats


def cross_entropy(scores: Floats, targets: Ints) -> float:
    """The sum over rows of −log softmax(scores)[target]."""
    biggest = np.max(scores, axis=1, keepdims=True)
    total = np.sum(np.log(np.sum(np.exp(scores - biggest), axis=1)) + biggest[:, 0])
    for row in range(len(targets)):
        total -= scores[row, targets[row]]
    return total


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


@jit(grad=True)
def rnn_loss(net: RNN, text: Ints) -> float:
    """``text``: (length + 1, batch); the loss a character."""
    steps, batch = text.shape[0] - 1, text.shape[1]
    h = np.zeros((batch, net.hidden.shape[0]), net.hidden.dtype)
    loss = 0.0
    for t in range(steps):
        h = np.tanh(net.inputs[text[t]] + h @ net.hidden + net.bias)
        loss += cross_entropy(h @ net.out + net.out_bias, text[t + 1])
    return loss / (steps * batch)


@jit(grad=True)
def lstm_loss(net: LSTM, text: Ints) -> float:
    """``text``: (length + 1, batch); the loss a character."""
    steps, batch = text.shape[0] - 1, text.shape[1]
    n = net.hidden.shape[0]
    h = np.zeros((batch, n), net.hidden.dtype)
    c = np.zeros((batch, n), net.hidden.dtype)
    loss = 0.0
    for t in range(steps):
        gates = net.inputs[text[t]] + h @ net.hidden + net.bias
        c = sigmoid(gates[:, n:2 * n]) * c + sigmoid(gates[:, :n]) * np.tanh(gates[:, 3 * n:])
        h = sigmoid(gates[:, 2 * n:3 * n]) * np.tanh(c)
        loss += cross_entropy(h @ net.out + net.out_bias, text[t + 1])
    return loss / (steps * batch)


# --- data and training ----------------------------------------------------------------------------

def make_net(kind: type[RNN] | type[LSTM], characters: int, hidden: int = HIDDEN,
             dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    width = hidden * (4 if kind is LSTM else 1)
    spread = 1 / np.sqrt(hidden)
    sizes = [(characters, width), (hidden, width), (width,), (hidden, characters), (characters,)]
    return kind(*(rng.uniform(-spread, spread, size).astype(dtype) for size in sizes))


def documentation() -> str:
    """Python's own documentation of its language, in lower case with single spaces."""
    from pydoc_data.topics import topics

    return re.sub(r"\s+", " ", " ".join(topics.values()).lower())


def encode(text: str) -> tuple[Ints, int]:
    """Character numbers, and how many there are; characters that hardly occur are one."""
    letters, counts = np.unique(list(text), return_counts=True)
    common = letters[counts * 10_000 >= len(text)]
    number = {letter: i for i, letter in enumerate(common)}
    return np.array([number.get(letter, len(common)) for letter in text]), len(common) + 1


def chunk(text: Ints, i: int, length: int = LENGTH, batch: int = BATCH) -> Ints:
    """Batch ``i``: ``length + 1`` characters from each of ``batch`` places."""
    starts = np.random.default_rng(i).integers(0, len(text) - length, batch)
    return np.ascontiguousarray(text[starts[None, :] + np.arange(length + 1)[:, None]])


def _run(name: str, kind: type[Any], loss: Any, data: Path | None, steps: int) -> Run:
    file = data / "text/graham.txt" if data else None
    text, characters = encode(file.read_text().strip() if file and file.exists() else documentation())
    net = make_net(kind, characters)
    memory = kind(*(np.zeros_like(p) for p in net))

    def step(i: int) -> float:
        nonlocal net, memory
        value, gradient = loss.value_and_grad(net, chunk(text, i))
        net, memory = adagrad(net, gradient, memory, rate=0.1, clip=5.0)
        return value

    value = compare(loss, net, chunk(text, 0))
    return train(name, f"{len(text):,} characters", steps, step, value)


def run_rnn(data: Path | None = None, steps: int = 20_000) -> Run:
    return _run("char-RNN", RNN, rnn_loss, data, steps)


def run_lstm(data: Path | None = None, steps: int = 20_000) -> Run:
    return _run("char-LSTM", LSTM, lstm_loss, data, steps)


if __name__ == "__main__":
    cli(run_rnn, run_lstm)
