"""The char-RNN, the char-LSTM and the TreeLSTM: a training step (an epoch) against PyTorch in the same run.

A step is loss, gradient, clipping and Adagrad, timed in float32.  Before that the losses of the first steps are
compared, in float64 and from the same start.  PyTorch is written twice, cell by cell and with its fused layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from bench.peers.common import add_ours
from examples import char_rnn, treelstm
from examples.char_rnn import HIDDEN, LSTM, RNN, chunk, encode, make_net
from examples.training import adagrad
from jitad import jit, value_and_grad

TITLE = "Training steps of small networks"
Step = Callable[[Any], float]


def ours(net: Any, loss: Any, rate: float, clip: float = math.inf) -> Step:
    """A step as one compiled function: only the new parameters are returned."""
    memory = type(net)(*(np.zeros_like(p) for p in net))

    @jit
    def update(net: Any, memory: Any, arguments: Any) -> Any:
        value, gradient = value_and_grad(loss)(net, *arguments)
        net, memory = adagrad(net, gradient, memory, rate, clip)
        return value, net, memory

    def step(arguments: Any) -> float:
        nonlocal net, memory
        value, net, memory = update(net, memory, arguments)
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
    """A Python loop over the sequence, a few matrix operations per step."""
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

Makers = dict[str, Callable[[], Step]]


def train_alike(case: Case, make: Callable[[Any], Makers], batches: list[Any]) -> dict[str, Step]:
    """The steps in float32, after the first losses have been compared.

    The losses are compared in float64, and only a few: Adagrad divides by the size of a gradient, so that rounding
    decides for the smallest ones.
    """
    for label, step in make(np.float64).items():
        case.add(label, lambda step=step: _losses(step(), batches[:8]))
    case.check()
    there = list(case.programs)
    case.programs.clear()
    return {label: step() for label, step in make(np.float32).items() if label in there}


def _losses(step: Step, batches: list[Any]) -> Program:
    return lambda: [step(b) for b in batches]


def forever(batches: list[Any]) -> Iterator[Any]:
    while True:
        yield from batches


def characters(bench: Bench, name: str, kind: Any, loss: Any) -> Case:
    text, count = encode(bench.file("text/graham.txt").read_text().strip())
    batches = [(chunk(text, i),) for i in range(50)]
    case = bench.case(name, "step", rtol=1e-5, least=0.1)

    def make(dtype: Any) -> Makers:
        net = make_net(kind, count, dtype=dtype)
        return {"jitad": lambda: ours(net, loss, 0.1, 5.0),
                "PyTorch cells": lambda: torch_step(*torch_cells(net), 0.1, 5.0),
                "PyTorch layer": lambda: torch_step(*torch_layers(net), 0.1, 5.0)}
    for label, step in train_alike(case, make, batches).items():
        turn = forever(batches)
        step(next(turn))                        # compiled for float32 before anything is measured
        case.programs[label] = lambda step=step, turn=turn: step(next(turn))
    return case


def trees(bench: Bench) -> Case:
    """An epoch over the treebank: 1,101 trees one by one; timed on every tenth, and scaled by the number of nodes."""
    every, vocabulary = treelstm.load_sst(bench.file("sst/array_tree.txt"))
    words = np.random.default_rng(1).normal(0, 0.1, (vocabulary, 300))
    part = every[::40 if bench.quick else 10]
    scale = sum(len(t.words) for t in every) / sum(len(t.words) for t in part)
    case = bench.case("TreeLSTM", "step", rtol=1e-5, least=0.1, per=1 / scale, unit="an epoch")

    def make(dtype: Any) -> Makers:
        net = treelstm.make_net(150, 300, 5, dtype=dtype)
        return {"jitad": lambda: ours(net, treelstm.tree_loss, 0.05),
                "PyTorch": lambda: torch_step(*torch_tree(net), 0.05)}
    given = words.astype(np.float32)
    for label, step in train_alike(case, make, [(words, tree) for tree in part[:10]]).items():
        step((given, part[0]))
        case.programs[label] = lambda step=step: [step((given, tree)) for tree in part]
    return case


def gradients(bench: Bench) -> Iterator[Case]:
    """Loss, and loss with gradient, without optimiser."""
    text, count = encode(bench.file("text/graham.txt").read_text().strip())
    forest, vocabulary = treelstm.load_sst(bench.file("sst/array_tree.txt"))
    words = np.random.default_rng(1).normal(0, 0.1, (vocabulary, 300)).astype(np.float32)
    programs = {
        "char-RNN": (char_rnn.rnn_loss, (make_net(RNN, count), chunk(text, 0))),
        "char-LSTM": (char_rnn.lstm_loss, (make_net(LSTM, count), chunk(text, 0))),
        "TreeLSTM": (treelstm.tree_loss, (treelstm.make_net(150, 300, 5), words, forest[0]))}
    for name, (loss, arguments) in programs.items():
        value, gradient = bench.case(name, "value"), bench.case(name, "gradient")
        add_ours(value, loss.py_func, lambda f, a=arguments: lambda: f(*a), fast=False)
        add_ours(gradient, loss.py_func, lambda f, a=arguments: lambda: f.value_and_grad(*a), fast=False, grad=True)
        yield value
        yield gradient


def cases(bench: Bench) -> Iterator[Case]:
    yield characters(bench, "char-RNN", RNN, char_rnn.rnn_loss)
    yield characters(bench, "char-LSTM", LSTM, char_rnn.lstm_loss)
    yield trees(bench)
    yield from gradients(bench)
