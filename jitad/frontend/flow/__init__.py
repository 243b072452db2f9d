"""Control flow while tracing.

Imports ``trees`` and the layers below it.

Files, in reading order::

    branches         ``if``, boolean operators, conditional expressions
    loops            ``for`` and ``while``: headers with predicted parameters, traced again if they do not fit
    loop_prediction  what a loop changes, before its body has been traced
    stacking         loops that stack the values of their iterations
    loop_match       the check that a back edge fits its header
    path_merge       the merge of states at a join
    raising          ``raise`` and ``assert``
    call_boundary    values across a call, flattened and rebuilt
"""
