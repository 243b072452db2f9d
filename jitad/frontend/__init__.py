"""The front end: runs a Python function on stand-ins and records typed SSA.

``docs/internals/frontend.md`` tells how; a newcomer reads the folders in this order.  Imports ``ir``, ``cps``,
``passes``, ``ad``; imported by ``compiler`` and the public face.

Files, in reading order::

    syntax      source text to hooks: one Python closure for each syntax node
    values      stand-ins: what a variable holds while a program is traced
    flow        control flow: branches, loops, merges of paths, exceptions
    objects     operators, attributes, builtins and the standard library on stand-ins
    trace       calls, specialisation, and the recorder of IR
    trees       recursive dataclasses as columns; functions and nodes made at run time
    arrays      NumPy: one table, rules that emit IR, and functions written in Python
    transforms  ``grad``, ``vjp``, ``vmap``, ``custom_vjp`` and their kin
"""
