"""All programs one after the other: ``python -m examples.demo`` (``make demo``)."""

from examples import char_rnn, gmm, treelstm
from examples.training import cli

if __name__ == "__main__":
    cli(gmm.run, char_rnn.run_rnn, char_rnn.run_lstm, treelstm.run, png="demo.png")
