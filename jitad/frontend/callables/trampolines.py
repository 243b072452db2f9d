"""Python functions that are traced around the user's; in a file of their own, so that errors can recognise them."""

from __future__ import annotations

from typing import Any


def run(step: Any, custom: Any, fixed: Any, args: Any) -> Any:
    """Runs a function with a rule, or a part of that rule (``rule_calls.py``)."""
    return step(custom, fixed, args)


def sum_of_parts(fun: Any, rules: Any, primals: Any, tangents: Any) -> Any:
    """A jvp rule that is the sum of one rule for each argument."""
    out, dot = fun(*primals), None
    for rule, tangent in zip(rules, tangents):
        if rule is not None and tangent is not None:
            part = rule(tangent, out, *primals)
            dot = part if dot is None else dot + part
    return out, dot


def outputs(enter: Any, flatten: Any, fun: Any, args: Any, kwargs: Any) -> Any:
    """Calls ``fun`` and flattens its result to a tuple: the function that is differentiated."""
    return flatten(fun(*enter(args), **enter(kwargs)))
