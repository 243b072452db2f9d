"""Control flow while tracing.

Imports ``trees`` and what stands below it.

Files, in reading order::

    branches       ``if``, boolean operators, conditional expressions
    loops          ``for`` and ``while``: headers, predicted and traced again
    stacking       loops that stack what their iterations yield
    loop_match     the test that a back edge fits its header
    path_merge     the merge of states where paths meet
    raising        ``raise`` and ``assert``
    call_boundary  values across a call, flattened and rebuilt
"""
