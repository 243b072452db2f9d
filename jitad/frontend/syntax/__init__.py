"""Syntax: from a function object to hooks.

Hooks act through ``flow`` and the trace; ``values.code`` defines them.

Files, in reading order::

    carried         source text of functions from other processes
    source          finds the syntax tree of a function object
    scope           local names and their liveness
    virtualise      statements as hooks
    expressions     expressions as hooks
    filled_lists    comprehensions of equal lists
    comprehensions  comprehensions and generator expressions
    patterns        ``match``
"""
