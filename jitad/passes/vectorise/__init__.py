"""Vectorisation: several iterations of a loop executed together.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    batch           one product of matrices for the matrix-vector products of a loop
    batch_rules     its table: each op for many iterations at once
    outer_loop      ``LANES`` iterations of an outer loop together
    lane_chunks     the loop over chunks of them
    lane_profit     its profitability
    lane_kinds      the kinds of values in such a loop
    lane_rules      its table: each op for ``LANES`` iterations
    collected_sums  sums that its inner loops continue, in the order of the program
    nest_fission    nests in loops that cannot run so as a whole, moved into a loop before
    nest_regions    what can move
    predicate       iterations together under an active mask, with inner loops of unknown length
    masked_chunks   the loop over chunks of them
    check_strips    indices that are data, tested strip by strip
    state_strips    states of a recurrence, computed ahead of what is computed of them
    speculate       checks assumed to hold for a chunk, and tested afterwards
    fission         transcendental functions of a serial loop, moved to a loop of their own
"""
