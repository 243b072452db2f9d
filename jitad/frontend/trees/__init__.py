"""Data of unbounded size in traced code: nodes of recursive dataclasses, and closures made at run time.

Imports ``arrays``, ``objects``, ``values`` and ``columns``, where objects become arrays.

Files, in reading order::

    references       nodes in traced code
    fields           attributes of nodes
    field_join       kinds of fields and their joins
    heaps            nodes that are made in traced code
    nodes            trees that come into a program
    boxed_closures   functions whose number is known at run time only
    closure_nesting  detection of functions that nest without bound
"""
