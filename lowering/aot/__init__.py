"""Self-contained machine code with a C interface, for libraries that are built ahead of time.

Imports every folder of the lowering but none of the entry points for Python; imported by ``jitad.aot``.
Files, in reading order::

    platforms    the platforms for which libraries are built, as one table
    interface    the C interface of an export: its parameters, with their C and LLVM types
    stack_bounds the bounds of a thread's stack, as each system tells them
    runtime      contexts for threads, in LLVM IR that calls the C library only
    failures     error codes and their messages
    trees        tests of the references in packed trees
    entry        the C function of an export, which runs the compiled function
    dispatch     code for several processors in one library
    library      programs and routines as one LLVM module; object files
    by_value     C functions that return their result, for callbacks of other libraries, in memory
"""
