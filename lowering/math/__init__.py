"""Vector versions of mathematical functions.

Files, in reading order::

    libmvec  glibc's
    own      functions of this project, written in LLVM IR
"""
