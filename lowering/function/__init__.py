"""Functions and modules: IR blocks to LLVM blocks.

Files, in reading order::

    module           the functions that the roots reach, as one LLVM module
    function         one IR function: ties the parts of the lowering together
    array_ops        dispatch of ops on arrays
    control          blocks, terminators, checks
    block_outlining  long blocks cut into functions
"""
