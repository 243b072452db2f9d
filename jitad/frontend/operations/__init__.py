"""Python's operations and builtins on user values.

Imports ``syntax`` and what stands below it.

Files, in reading order::

    operations       operators: one function an operation, by kinds of operands
    comparing        comparisons, ``in``, ``is``, truth
    subscripts       elements, lengths and attributes
    builtin          builtins on structures, types and iteration
    reducing         ``sum``, ``min``, ``any`` and their kin
    stdlib           ``operator``, ``itertools``, ``functools``, …
    argument_errors  calls that a rule does not take; ``out=``
"""
