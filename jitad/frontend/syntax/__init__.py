"""Syntax: from a function object to hooks.

Hooks act through ``flow``, ``objects`` and ``trace``.

Files, in reading order::

    source          finds the syntax tree of a function object
    scope           local names and their liveness
    virtualise      statements as hooks
    expressions     expressions as hooks
    comprehensions  comprehensions and generator expressions
    patterns        ``match``
    code            a function as hooks, and one activation of it
"""
