"""Functions and modules: IR blocks to LLVM blocks.

Files, in reading order::

    module            the functions that the roots reach, as one LLVM module
    function          one IR function: combines the parts of the lowering
    control           blocks, terminators
    checks            branches to code that raises exceptions
    block_outlining   outlines the parts of long blocks as functions
    code_regions      chooses regions of large functions
    loop_accesses     accesses of a simple loop, and which of them may meet
    loop_vectors      vectorises simple loops of large functions
    region_outlining  outlines them as functions
"""
