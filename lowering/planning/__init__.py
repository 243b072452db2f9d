"""Plans: decisions about the IR of a function before its code is written.  Nothing here writes LLVM IR.

Files, in reading order::

    op_traits         access patterns of ops
    fusion            which arrays are stored and which are computed element by element
    fusion_groups     results and reductions that share a loop
    array_plan        both, for one function
    buffer_placement  where arrays live: in place, in the stack frame, in the arena
    fma_control       loop-carried additions, which are left uncontracted
    index_tests       loops that end when an index does, and then need no counter
    one_of_two        selections that must not become branches
    shared_conditions selections of floats by one condition, which become branches on x86 processors
    row_accesses      innermost loops whose iterations access different elements
    recurrences       chains of float ops from iteration to iteration, which fast math must not lengthen
    wrapped_indices   checked indices that may count from the end, which rarely do
    deferred_casts    checks of floats that the check of an index implies
    small_integers    conversions to float64 that need no instruction for it
    run_length        estimate of a function's running time, which decides whether its entry releases the GIL
"""
