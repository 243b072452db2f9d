"""The front end: runs a Python function on stand-ins and records typed SSA.

``docs/internals/frontend.md`` explains how.  Imports ``ir``, ``cps``, ``passes``, ``ad``; imported by ``compiler`` and
the public modules.

A folder imports only folders below it in this list (``tests/project/test_layers.py``).  The trace connects them: each
folder takes it as a ``values.protocol.Trace``, and ``trace`` assembles the parts that implement it::

    trace       records IR: calls, specialisations, and the class that is the trace
    transforms  ``grad``, ``vjp``, ``vmap``, rules of ``custom_vjp``, and their kin
    operations  operators, subscripts, comparisons, builtins and the standard library on user values
    syntax      source text to hooks: one Python closure for each syntax node
    flow        control flow: branches, loops, merges of paths, exceptions, values across a call
    trees       recursive dataclasses as columns; functions and nodes made at run time
    arrays      NumPy: one table, rules that emit IR, views, and functions written in Python
    callables   functions that trace inside compiled code and compile outside; ``custom_vjp``
    objects     the user's objects: attributes, special methods, containers, iteration
    values      stand-ins: what a variable holds while a program is traced; the trace as a protocol
    captured    captured state: access paths, guards, which classes are the user's
    columns     recursive dataclasses as arrays, one for each field; nothing of the trace

A newcomer reads ``syntax``, ``values``, ``flow``, ``objects``, ``trace`` first.
"""
