"""The verifier: checks that a module is well-formed.  This docstring lists everything that passes may rely on.

``verify`` reports all violations of these invariants together, each with its line of IR and a caret.

Module
  * A function is entered under its own name (a derivative that has been made stays in the list of derivatives).
  * A derivative to be made has a base that exists, a kind, and float parameters, in ascending order, as ``wrt``.
  * A rule belongs to a function that exists, and its functions exist and have the types of its kind (``graph.Rule``).
Function
  * It has blocks; each block, op and value occurs once and points back to its place (owner, index, block, func).
  * No edge enters the first block.  Edges lead to blocks of the same function.
  * ``own`` names parameters that are arrays or stacks.
Block
  * It ends in one terminator; none of its ops is a terminator, and only terminators have edges.
Values
  * Every operand and edge argument is defined in the same function, and on every path before its use
    (its definition dominates it).  In unreachable blocks it need only be defined somewhere.
Types
  * Every op is in the table, and its result types are those of its rule, possibly with sizes forgotten (``?``).
  * A constant has a Python value of its type's kind, in its type's range.
  * An edge has as many arguments as its block has parameters, of the same types; after a call, the results come first.
  * A call names a function of the module, or one to be derived, and has arguments of its parameters' types.
  * ``branch`` takes a bool and two edges, ``switch`` an i64 and one edge or more, ``jump`` one edge, ``return`` values
    of the function's result types, ``raise`` at most four scalars.
  * ``check`` and ``raise`` carry the number of an exception of the module.
Memory (``linear``): see ``linearity.py``.

Files, in reading order::

    module      invariants of modules; ``verify``
    function    those of functions, blocks, values and types
    linearity   those of memory: arrays that are updated in place
    violations  messages with a caret
    reverify    verification of the functions that a pass has changed
"""

from __future__ import annotations

from .function import FunctionVerifier
from .module import verify
from .reverify import Verifier
from .violations import VerifyError, Violation

__all__ = ["FunctionVerifier", "Verifier", "VerifyError", "Violation", "verify"]
