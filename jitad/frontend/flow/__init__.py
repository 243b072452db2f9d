"""Control flow while tracing.

Files, in reading order::

    branches    ``if``, boolean operators, conditional expressions
    loops       ``for`` and ``while``: headers, predicted and traced again
    loop_match  the test that a back edge fits its header
    iteration   what a ``for`` walks
    path_merge  the trace state, and its merge where paths meet
    raising     ``raise`` and ``assert``
"""
