"""The char-RNN, the char-LSTM and the TreeLSTM: a training step (an epoch) against PyTorch in the same run.

A step is loss, gradient, clipping and Adagrad, timed in float32.  Before that the losses of the first steps are
compared, in float64 and from the same start.  PyTorch is written twice, cell by cell and with its fused layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.harness import agree, has, options, report, turns
from examples import char_rnn, treelstm
from examples.char_rnn import HIDDEN, LSTM, RNN, chunk, encode, make_net
from examples.training import adagrad

Step = Callable[[Any], float]


def ours(net: Any, loss: Any, rate: float, clip: float = math.inf) -> Step:
    memory = type(net)(*(np.zeros_like(p) for p in net))

    def step(arguments: Any) -> float:
        nonlocal net, memory
        value, gradient = loss.value_and_grad(net, *arguments)
        net, memory = adagrad(net, gradient, memory, rate, clip)
        return float(value)
    return step


# --- PyTorch --------------------------------------------------------------------------------------

def torch_step(parameters: list[Any], loss: Callable[..., Any], rate: float, clip: float | None = None) -> Step:
    import torch

    torch.set_num_threads(1)
    optimiser = torch.optim.Adagrad(parameters, lr=rate, eps=1e-8)

    def step(arguments: Any) -> float:
        optimiser.zero_grad()
        value = loss(*arguments)
        value.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_value_(parameters, clip)
        optimiser.step()
        return float(value.detach())
    return step


def torch_cells(net: Any) -> tuple[list[Any], Callable[..., Any]]:
    """The loop over the sequence written out, a few matrix operations a step."""
    import torch
    import torch.nn.functional as F

    inputs, hidden, bias, out, out_bias = parameters = [torch.tensor(p, requires_grad=True) for p in net]

    def loss(text: Any) -> Any:
        text = torch.as_tensor(text)
        h = c = torch.zeros(text.shape[1], len(hidden), dtype=hidden.dtype)
        total = torch.zeros((), dtype=hidden.dtype)
        for now, then in zip(text[:-1], text[1:]):
            gates = inputs[now] + h @ hidden + bias
            if isinstance(net, RNN):
                h = torch.tanh(gates)
            else:
                i, f, o, candidates = gates.chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(candidates)
                h = torch.sigmoid(o) * torch.tanh(c)
            total = total + F.cross_entropy(h @ out + out_bias, then, reduction="sum")
        return total / text[1:].numel()
    return parameters, loss


def torch_layers(net: Any) -> tuple[list[Any], Callable[..., Any]]:
    """PyTorch's fused recurrent layer; its gates are in the order input, forget, candidates, output."""
    import torch
    import torch.nn.functional as F

    inputs, hidden, bias, out, out_bias = (torch.tensor(p) for p in net)
    characters, gated = len(inputs), isinstance(net, LSTM)
    layer = (torch.nn.LSTM if gated else torch.nn.RNN)(characters, HIDDEN, dtype=inputs.dtype)
    head = torch.nn.Linear(HIDDEN, characters, dtype=inputs.dtype)

    def order(a: Any) -> Any:
        i, f, o, g = a.chunk(4, -1) if gated else (a, None, None, None)
        return (torch.cat((i, f, g, o), -1) if gated else a).t()
    with torch.no_grad():
        for mine, given in ((layer.weight_ih_l0, order(inputs)), (layer.weight_hh_l0, order(hidden)),
                            (layer.bias_ih_l0, order(bias)), (head.weight, out.T), (head.bias, out_bias)):
            mine.copy_(given)
        layer.bias_hh_l0.zero_()
    layer.bias_hh_l0.requires_grad_(False)
    one_hot = torch.eye(characters, dtype=inputs.dtype)

    def loss(text: Any) -> Any:
        text = torch.as_tensor(text)
        scores = head(layer(one_hot[text[:-1]])[0])
        return F.cross_entropy(scores.flatten(0, 1), text[1:].flatten())
    return [p for p in (*layer.parameters(), *head.parameters()) if p.requires_grad], loss


def torch_tree(net: Any) -> tuple[list[Any], Callable[..., Any]]:
    """The recursion over the tree in Python, the cell in matrix operations."""
    import torch
    import torch.nn.functional as F

    leaf, leaf_bias, left, right, bias, out, out_bias = parameters = [torch.tensor(p, requires_grad=True) for p in net]

    def loss(words: Any, tree: Any) -> Any:
        def encode(i: int) -> Any:
            if tree.left[i] < 0:
                ingate, outgate, candidates = (leaf @ words[tree.words[i]] + leaf_bias).chunk(3)
                c, total = torch.sigmoid(ingate) * torch.tanh(candidates), 0.0
            else:
                (lh, lc, ll), (rh, rc, rl) = encode(tree.left[i]), encode(tree.right[i])
                ingate, outgate, candidates, lf, rf = (left @ lh + right @ rh + bias).chunk(5)
                c = torch.sigmoid(ingate) * torch.tanh(candidates) + torch.sigmoid(lf) * lc + torch.sigmoid(rf) * rc
                total = ll + rl
            h = torch.sigmoid(outgate) * torch.tanh(c)
            return h, c, total + F.cross_entropy((out @ h + out_bias)[None], torch.as_tensor([tree.labels[i]]))
        words = torch.as_tensor(words)
        return encode(0)[2]
    return parameters, loss


# --- measurements ---------------------------------------------------------------------------------

def train_alike(steps: dict[str, Step], batches: list[Any]) -> None:
    """Raise unless the losses of the first steps are equal.

    In float64, and few: Adagrad divides by the size of a gradient, so that rounding decides on the smallest ones.
    """
    agree({name: [step(b) for b in batches[:8]] for name, step in steps.items()}, 1e-5)


def forever(batches: list[Any]) -> Iterator[Any]:
    while True:
        yield from batches


def character_steps(kind: Any, loss: Any, count: int, dtype: Any) -> dict[str, Step]:
    net = make_net(kind, count, dtype=dtype)
    peers = {"PyTorch cells": torch_cells, "PyTorch layer": torch_layers} if has("torch") else {}
    return {"jitad": ours(net, loss, 0.1, 5.0)} | {k: torch_step(*make(net), 0.1, 5.0) for k, make in peers.items()}


def characters(kind: Any, loss: Any, data: Any, rounds: int) -> dict[str, float]:
    """Seconds a step."""
    text, count = encode((data / "text/graham.txt").read_text().strip())
    batches = [(chunk(text, i),) for i in range(50)]
    train_alike(character_steps(kind, loss, count, np.float64), batches)
    steps = character_steps(kind, loss, count, np.float32)
    turn = {name: forever(batches) for name in steps}
    calls = {name: lambda step=step, turn=turn[name]: step(next(turn)) for name, step in steps.items()}
    return turns(calls, rounds, 0.1)


def tree_steps(dtype: Any) -> dict[str, Step]:
    net = treelstm.make_net(150, 300, 5, dtype=dtype)
    peers = {"PyTorch": torch_step(*torch_tree(net), 0.05)} if has("torch") else {}
    return {"jitad": ours(net, treelstm.tree_loss, 0.05)} | peers


def trees(data: Any, rounds: int) -> dict[str, float]:
    """An epoch over the treebank: 1,101 trees one by one; timed on every tenth and scaled by the number of nodes."""
    every, vocabulary = treelstm.load_sst(data / "sst/array_tree.txt")
    words = np.random.default_rng(1).normal(0, 0.1, (vocabulary, 300))
    part = every[::10]
    train_alike(tree_steps(np.float64), [(words, tree) for tree in part[:10]])
    steps, given = tree_steps(np.float32), words.astype(np.float32)

    def epoch(step: Step) -> None:
        for tree in part:
            step((given, tree))
    times = turns({name: lambda step=step: epoch(step) for name, step in steps.items()}, rounds, 0.1)
    scale = sum(len(t.words) for t in every) / sum(len(t.words) for t in part)
    return {name: t * scale for name, t in times.items()}


def main() -> None:
    opts = options()
    report("networks", {
        "char-RNN step": characters(RNN, char_rnn.rnn_loss, opts.data, opts.rounds),
        "char-LSTM step": characters(LSTM, char_rnn.lstm_loss, opts.data, opts.rounds),
        "TreeLSTM epoch": trees(opts.data, min(opts.rounds, 7))})


if __name__ == "__main__":
    main()
