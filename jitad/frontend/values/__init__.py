"""Values of the user's variables while a program is traced, and the protocol of the trace.

Imports only ``columns`` and ``captured``.

Files, in reading order::

    values           stand-ins, objects of the trace state, the context that rules use
    purity           callables without Python source that may run while tracing
    other_libraries  names of Numba, JAX and PyTorch, and their equivalents
    protocol         ``Trace``: the interface of the trace
    session          state shared by the functions of one module
    active           composites that implement the trace's queries themselves
    lattice          equality and joins of values
    growing          contents of lists whose length is a run-time value
    code             a function as hooks, and one activation of it
    closures         functions, methods and iterators as values
    unions           values of several kinds, distinguished by a tag at run time
    union_merge      variants of a union at a join
    variant_guards   leaves of absent variants
"""
