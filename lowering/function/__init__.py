"""Functions and modules: IR blocks to LLVM blocks.

Files, in reading order::

    module           the functions that the roots reach, as one LLVM module
    function         one IR function
    control          blocks, terminators, checks, the way out on failure
    fma_control      additions that a loop carries, left uncontracted
    block_outlining  long blocks cut into functions
"""
