"""The user's objects: classes and their instances, containers, and iteration.

Imports ``values`` and ``columns``.

Files, in reading order::

    attributes       classes, instances, attribute lookup
    special_methods  special methods, in Python's order
    containers       tuples, lists, dicts and their methods
    long_lists       lists whose length is a run-time value
    growing_lists    lists whose length is a run-time value, and which may change
    list_changes     their methods, assignments and operators
    iteration        iterables of ``for`` loops
    refusals         functions that are refused, with hints for alternatives
"""
