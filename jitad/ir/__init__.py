"""The typed SSA intermediate representation.

Imports only ``errors``; imported by everything that works on programs.

Files, in reading order::

    types      scalar types, arrays, ``stack``
    ops        the op table: each op once, with its type rule, its effects and the memory of its results
    graph      the grammar and the classes: modules, functions, blocks, ops
    builder    appends ops to a block, typed and folded
    text       printer, lexer and parser of the text form
    verify     the verifier of the invariants on which passes rely
    aliasing   values that may share memory, values that are updated in place
    evaluate   the meaning of ops, folding, the reference interpreter
    dominance  reverse postorder, the dominator tree
    dataflow   forward dataflow to a fixed point
    uses       use lists: the ops that read each value
    expression_keys  equal for ops that compute the same
    type_rules, size_rules  the rules to which rows of the op table refer
    strings    numbers of the strings that a program holds at run time
    window     parts of arrays that ops read and write
    signature  types of a function by name
    clone      copies of functions and blocks
"""
