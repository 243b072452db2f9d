"""NumPy, ``math`` and builtins on run-time values.

Files, in reading order::

    table    the table: a rule or a Python function for each supported function
    rules    rules that emit IR
    library  functions written in Python, traced like the user's
"""
