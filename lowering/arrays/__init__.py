"""Ops on arrays: fusion decides what is stored; the rest is computed where it is read.

Files, in reading order::

    fusion               which arrays are stored and which are computed element by element
    op_traits            costs and access patterns of ops
    fusion_groups        results and reductions that share a loop
    arrays               dispatch by op
    elements             single elements, and loop nests over them
    elementwise          elementwise results stored
    fused_nest           one nest for a group
    fixed_width_vectors  short loops as whole vectors
    reduce               reductions
    scan                 cumulative sums and products
    shape                sizes, views, rearrangements
    update               updates in place
"""
