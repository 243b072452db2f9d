"""What a gradient costs over the value, program by program, and the geometric mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench import gmm, lstm
from bench.harness import OUT, options, readable, turns
from bench.recurrence import STEPS, S, W, recurrence
from examples import char_rnn, treelstm
from jitad import jit


def programs(data: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The demo's and ADBench's programs with arguments."""
    text, count = char_rnn.encode((data / "text/graham.txt").read_text().strip())
    sample = char_rnn.chunk(text, 0)
    forest, vocabulary = treelstm.load_sst(data / "sst/array_tree.txt")
    words = np.random.default_rng(1).normal(0, 0.1, (vocabulary, 300)).astype(np.float32)
    return {
        "gmm d10_K25": (jit(gmm.gmm_objective, grad=True), gmm.load_adbench(data / "adbench/gmm/gmm_d10_K25.txt")),
        "gmm d64_K25": (jit(gmm.gmm_objective, grad=True), gmm.load_adbench(data / "adbench/gmm/gmm_d64_K25.txt")),
        "lstm l2_c1024": (jit(lstm.objective, grad=True), lstm.load(data / "adbench/lstm/lstm_l2_c1024.txt")),
        "recurrence": (jit(recurrence, grad=True), (W, S, STEPS)),
        "char-RNN": (char_rnn.rnn_loss, (char_rnn.make_net(char_rnn.RNN, count), sample)),
        "char-LSTM": (char_rnn.lstm_loss, (char_rnn.make_net(char_rnn.LSTM, count), sample)),
        "TreeLSTM": (treelstm.tree_loss, (treelstm.make_net(150, 300, 5), words, forest[0])),
    }


def main() -> None:
    opts, ratios = options(), {}
    for name, (f, arguments) in programs(opts.data).items():
        times = turns({"value": lambda f=f, a=arguments: f(*a),
                       "gradient": lambda f=f, a=arguments: f.value_and_grad(*a)}, opts.rounds)
        ratios[name] = times["gradient"] / times["value"]
        print(f"ratio {name}: value {readable(times['value'])} | value and gradient {readable(times['gradient'])} | "
              f"{ratios[name]:.2f}×", flush=True)
    ratios["geometric mean"] = float(np.exp(np.mean(np.log(list(ratios.values())))))
    print(f"ratio geometric mean: {ratios['geometric mean']:.2f}×")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "ratio.json").write_text(str(ratios).replace("'", '"') + "\n")


if __name__ == "__main__":
    main()
