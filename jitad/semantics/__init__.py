"""The reference semantics of programs, with differentiation as a construct of the language.

A derivative that the program asks for (``Module.derived``) is evaluated in three steps, after Abadi and Plotkin, *A
Simple Differentiable Programming Language* (POPL 2020).  The function is evaluated symbolically at its arguments,
which gives a trace, a straight line of primitives without control flow.  The trace is differentiated symbolically.
The result, a trace again, is evaluated.

=================== ===================================================================
``primitives``      the results of primitives on numbers
``trace``           the syntax of traces
``symbolic``        evaluation of primitives and traces, on numbers and symbolically
``partials``        partial derivatives of the elementwise primitives, one line each
``differentiate``   the derivative of a trace
``evaluate``        the evaluation of programs
``kinks``           an evaluation that reports points without a derivative
=================== ===================================================================

This package shares no code with ``ad``, whose results are compared with its own.
"""
