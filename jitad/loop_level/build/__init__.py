"""Builds the loop level from the IR of the stage "optimized".

Files, in reading order::

    functions   one function after the other, op by op
    state       the state of a function that is being built
    elements    one element of an array; loop nests
    nests       elementwise results, and groups that share a nest
    updates     updates in place
    shapes      sizes, views, rearrangement
    reductions  reductions and scans
    products    products of matrices
    structure   counted loops of the program become ``for`` ops
    writer      appends ops
    cleanup     known sizes, unused ops
"""

from .functions import COVERED, NotCovered, array, to_loops

__all__ = ["COVERED", "NotCovered", "array", "to_loops"]
