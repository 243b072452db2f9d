"""Builders: the state of the code that is being written, and the helpers that all lowering code writes with.

Files, in reading order::

    module_builder       what is common to the functions of a module
    function_builder     one function: its values, arithmetic, loops, branches, calls, failures
    fixed_width_vectors  short loops as whole vectors
    kernel_builder       loops and addresses for routines written by hand
"""
