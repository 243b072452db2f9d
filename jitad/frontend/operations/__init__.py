"""Python's operations and builtins on user values.

Imports ``syntax`` and the layers below it.

Files, in reading order::

    operations       operators: one function for each operation, by kinds of operands
    comparing        comparisons, ``in``, ``is``, truth
    subscripts       elements, lengths and attributes
    builtin          builtins on structures, types and iteration
    reducing         ``sum``, ``min``, ``any`` and similar functions
    stdlib           ``operator``, ``itertools``, ``functools``, …
    argument_errors  arguments that a rule does not support; ``out=``
"""
