"""The user's objects: classes and their instances, containers, and iteration.

Imports ``values`` and ``columns``.

Files, in reading order::

    attributes       classes, instances, attribute lookup
    special_methods  special methods, in Python's order
    containers       tuples, lists, dicts and their methods
    long_lists       lists whose length is a run-time value
    list_elements    what lists of run-time length hold, and how it is stored
    list_rows        lists in such lists: rows of one array
    growing_lists    lists whose length is a run-time value, and which may change
    list_changes     their methods and assignments
    list_operators   their operators
    iteration        iterables of ``for`` loops
    refusals         functions that are refused, with hints for alternatives
"""
