"""Evaluation: the meaning of ops, constant folding, and the reference interpreter.

Imports ``ir``; ``fold`` serves the builder, ``interp`` tests, ``interpret`` and derivatives by definition.

Files, in reading order::

    meaning  the meaning of each op in NumPy, one entry an op
    gamma    digamma and polygamma
    fold     constants and exact identities
    interp   the reference interpreter
"""
