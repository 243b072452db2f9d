"""Tracing: calls, specialisations, and recording of IR.

The top layer of the front end.

Files, in reading order::

    trace_program  traces one program: the entry of the front end
    trace          the recorder of one IR function
    calls          calls of any callable that the user may have
    callers        the user's calls that lead to an exception
    specialise     the choice of the IR function for a call
"""
