"""Tracing: calls, specialisations, and the recorder of IR.

The top of the front end.

Files, in reading order::

    trace_program  traces one program: the entry of the front end
    trace          the recorder: one IR function in the making
    calls          calls of anything the user may hold
    callers          the user's calls that lead to an exception
    specialise     which IR function stands for a call
"""
