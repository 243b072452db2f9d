"""The number of iterations that run side by side as lanes of a vectorised outer loop.

``vectorise.outer_loop`` makes arrays of this many elements, and loops over them.  The lowering emits such a loop as
fixed-width vectors.  Both read this constant: if they disagreed, each such loop would be left to LLVM.
"""

from __future__ import annotations

LANES = 16
"""Two vectors of eight doubles: enough to hide the latency of one vector operation, and few enough that the values
saved for all lanes stay small.  It is also more than eight, up to which the lowering emits scalar code.

Measured when lanes were introduced, on a Gaussian mixture whose inner loops have at most ten elements: with lanes, the
value takes a quarter and the gradient half of the time.  Emitted as fixed-width vectors, instead of as loops that LLVM
has to analyse, the gradient compiles in a sixth less time and runs a tenth faster.
"""
