"""Values: what the user's variables hold while a program is traced.

The bottom of the front end.

Files, in reading order::

    values          stand-ins, objects of the trace state, the context
    lattice         equality and joins of values
    unions          values of several kinds, told apart at run time
    union_merge     variants of a union where paths meet
    variant_guards  leaves of variants that are not there
    closures        functions, methods and iterators as values
    views           arrays and their views, with NumPy's aliasing
"""
