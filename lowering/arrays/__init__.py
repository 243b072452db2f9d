"""Ops on arrays: loop nests that store the arrays chosen by ``planning`` and compute lazy arrays inside their readers.

Files, in reading order::

    elements     single elements, and loop nests over them
    elementwise  stores of elementwise results
    fused_nest   one nest for a group
    reduce       reductions
    scan         cumulative sums and products
    shape        sizes, views, rearrangements
    update       updates in place
    transpose    a routine that transposes panels of matrices
"""
