"""Python's operations on stand-ins and on the user's objects.

Files, in reading order::

    operations       the hooks: one function an operation, by kinds of operands
    comparing        comparisons, ``in``, ``is``, truth
    subscripts       elements, lengths and attributes
    attributes       classes, instances, attribute lookup
    special_methods  special methods, in Python's order
    containers       tuples, lists, dicts and their methods
    builtin          builtins on structures, types and iteration
    reducing         ``sum``, ``min``, ``any`` and their kin
    stdlib           ``operator``, ``itertools``, ``functools``, …
    argument_errors  calls that a rule does not take; ``out=``
    refusals         functions that are refused, with the way to write it instead
"""
