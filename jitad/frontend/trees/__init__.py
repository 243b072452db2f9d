"""Data of unbounded size in traced code: nodes of recursive dataclasses, and closures made at run time.

Imports ``arrays``, ``objects``, ``values`` and ``columns``, which converts objects to arrays.

Files, in reading order::

    references       nodes in traced code
    fields           attributes of nodes
    field_join       kinds of fields and their joins
    heaps            nodes made in traced code
    nodes            trees that are arguments of a program
    boxed_closures   functions whose number is only known at run time
    closure_nesting  detection of functions that nest without bound
"""
