"""Builders: the state of the code being written, and the helpers with which all lowering code writes it.

Files, in reading order::

    module_builder       the state that the functions of a module share
    function_builder     one function: its values, arithmetic, loops, branches, calls, failures
    fixed_width_vectors  short loops rewritten as fixed-width vectors
    kernel_builder       loops and addresses for hand-written routines
"""
