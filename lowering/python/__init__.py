"""Calls from Python: objects to machine values and back.

Files, in reading order::

    callable      the type of the object that the user holds
    entry_point   the entry point: a CPython function in LLVM IR
    unbox         arguments
    unbox_list     long lists of numbers among the arguments
    box           results
    context_pool  contexts for the time of a call; the GIL
    exceptions    from a status to a Python exception
"""
