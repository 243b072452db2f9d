"""Calls from Python: objects to machine values and back.

Files, in reading order::

    callable      the type of the object that the user holds
    entry         the description of an entry point
    entry_point   its code: a CPython function in LLVM IR
    unbox         arguments: their structures
    unbox_values  numbers and arrays; references that are held during a call
    unbox_list    long lists of numbers among the arguments
    guards        captured state: the guards, and the values that are arguments
    dict_entries  variables of modules and values of dicts among these
    guard_tables  loops that test many guards
    attributes    attributes of objects among these
    hints         where they were found last
    box           results
    context_pool  contexts for the duration of a call; the GIL
    exceptions    Python exceptions made from statuses
"""
