"""What a program means, with differentiation as a construct of the language.

A derivative that the program asks for (``Module.derived``) is evaluated in three steps, after Abadi and Plotkin, *A
Simple Differentiable Programming Language* (POPL 2020): the function is evaluated symbolically at its arguments,
which leaves a trace, a straight line of primitives without control flow; the trace is differentiated symbolically; the
result, a trace again, is evaluated.

=================== ===================================================================
``primitives``      what a primitive yields on numbers
``trace``           the syntax of traces
``symbolic``        evaluation of primitives and traces, on numbers and symbolically
``partials``        partial derivatives of the elementwise primitives, one line each
``differentiate``   the derivative of a trace
``evaluate``        the evaluation of programs
``kinks``           an evaluation that tells where there is no derivative
=================== ===================================================================

No line is shared with ``ad``, whose results are held against these.
"""
