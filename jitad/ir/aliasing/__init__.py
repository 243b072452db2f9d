"""Alias analysis: which values may share memory, and which of them are updated in place.

The results of an op share with its operands what a column of the op table says (``ops.Memory``).  A block parameter
shares with the argument that an edge passes for it, and the results of a call share as the callee returns them.  Three
questions are answered from this.  They differ, so none of the answers can be taken for another.

* Which pairs of values may share memory *at a point*?  The answer is a relation, which need not be transitive, and an
  update ends it: the operand is used up, and the result shares with nothing.
* Which values may live in one buffer *at any time*?  The answer is a partition of a function's values.  An update keeps
  its operand's class, and so do the parameters through which a loop exchanges two arrays, which at no point share.
* Which values may be updated in place, *under this name or a later one*?  The answer is a set of values.  It has a
  direction: a view is consumed with its array, an array is not consumed where it was copied before.

Imports ``ir`` alone.  Files, in reading order::

    consumption    values that are updated in place: for ``cse``, ``licm``, ``copy_insertion``, ``ad.storage``
    unmodified     values that are not, under any name: for ``ad.storage``
    liveness       live values, block by block; pairs of dead values are of no interest
    may_alias      pairs at a point: for ``copy_insertion``, and for ``linearity``, which verifies what that did
    alias_classes  classes of values: for the lowering, which gives each buffer its alias scope and its place
    live_arrays    live values by class, and the origins of their memory: for results that take over a buffer
"""
