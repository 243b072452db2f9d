"""Values: what the user's variables hold while a program is traced, and the trace as others see it.

Imports ``columns`` and ``captured``.

Files, in reading order::

    values          stand-ins, objects of the trace state, the context that rules see
    purity           callables without Python source that may run while tracing
    other_libraries  names of Numba, JAX and PyTorch, and what stands for them
    protocol        ``Trace``: what all others ask of the trace
    session         what the functions of one module have in common
    active          composites that answer themselves what the trace asks
    lattice         equality and joins of values
    code            a function as hooks, and one activation of it
    closures        functions, methods and iterators as values
    unions          values of several kinds, told apart at run time
    union_merge     variants of a union where paths meet
    variant_guards  leaves of variants that are not there
"""
