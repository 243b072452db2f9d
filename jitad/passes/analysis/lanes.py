"""The number of iterations of a loop that run side by side as lanes.

``vectorise.outer_loop`` makes arrays of so many elements, and loops over them; the lowering writes such a loop as
fixed-width vectors.  Both go by this one constant: if they disagreed, each such loop would be left to LLVM.
"""

from __future__ import annotations

LANES = 16
"""Two vectors of eight doubles: enough to hide the latency of one, few enough for what is kept of them.  More than the
lowering writes out one by one, which is eight.

Measured when lanes came in, on a Gaussian mixture whose inner loops have ten elements or fewer: the value takes a
quarter and the gradient half of the time without lanes.  As vectors instead of loops that LLVM has to analyse, the
gradient compiles in a sixth less time, and runs a tenth faster.
"""
