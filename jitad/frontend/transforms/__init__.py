"""The differentiation functions and ``vmap``, in traced code and outside.

Imports ``operations`` and the layers below it, but not ``trace``: it calls functions through the trace's protocol.

Files, in reading order::

    transforms       the public functions
    argnums          resolution of ``argnums``
    derivative_call  a call and its derivative in traced code
    pullbacks        ``vjp``: the pullback as a value
    tangents         tangents and cotangents in the form of their primals
    jacobians        Jacobians over trees
    rule_calls       calls of functions with a rule (``callables.custom``)
    rule_wrappers    the functions that a rule names
    rule_parts       their parts, as traced
    checkpoint       ``checkpoint``
    vmap             ``vmap``: a counted loop over an axis
    axes             ``in_axes`` and ``out_axes``
    result_shapes    sizes of results from those of arguments
    dependence       dependence of results on arguments
    snapshot         a function with copies of its captured values
"""
