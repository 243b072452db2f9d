"""Data of unbounded size: recursive dataclasses, nodes and closures made at run time.

Files, in reading order::

    recursive_types  families of classes that refer to one another
    layouts          columns of a family: an array for each field
    field_join       kinds of fields and their joins
    references       nodes in traced code
    fields           attributes of nodes
    heaps            nodes that are made in traced code
    nodes            trees that come into a program
    to_columns       objects to columns
    pack             columns to objects; ``jitad.pack``
    boxed_closures   functions whose number is known at run time only
    closure_nesting  detection of functions that nest without bound
"""
