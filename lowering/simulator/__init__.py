"""A SIMT simulator: runs the kernels of an image (``gpu.image``) natively on this machine's processor.

The threads of a block are fibers, each with its own stack; barriers, shuffles and ballots switch to a scheduler, which
checks that all threads take part.  Instrumented code also has each access to memory checked: bounds, use after free,
and data races.

Files, in reading order::

    state      the memory that kernels, runtime and Python share during a launch
    fibers     the switch from one stack to another, and the stacks
    warps      the runtime in LLVM IR: shuffles and ballots
    scheduler  the runtime in LLVM IR: runs blocks, joins threads at barriers
    races      the runtime in LLVM IR: finds races
    shadow     the runtime in LLVM IR: checks accesses
    memory     device memory, and the shadow memory beside it
    rewrite    prepares the text of an image: call sites, polls, checks of accesses
    code       machine code of an image
    launch     runs a kernel
    reports    what failed, as an exception
"""
