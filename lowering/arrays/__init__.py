"""Ops on arrays: loop nests that store what ``planning`` wants stored, and compute the rest where it is read.

Files, in reading order::

    elements     single elements, and loop nests over them
    elementwise  elementwise results stored
    fused_nest   one nest for a group
    reduce       reductions
    scan         cumulative sums and products
    shape        sizes, views, rearrangements
    update       updates in place
    transpose    panels of matrices transposed, by a routine
"""
