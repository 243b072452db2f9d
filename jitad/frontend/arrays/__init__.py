"""NumPy, ``math`` and builtins on run-time values.

Imports ``values`` and ``objects``; ``library`` imports ``callables`` too.

Files, in reading order::

    table    the table: a rule or a Python function for each supported function
    signatures  NumPy's signatures, by which calls are bound
    rules    rules that emit IR
    views    arrays and their views, with NumPy's aliasing
    library  functions written in Python, traced like the user's
"""
