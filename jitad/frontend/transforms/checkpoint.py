"""``checkpoint``: a function that is run again on the way back."""

from __future__ import annotations

from typing import Any

from ..callables.traceable import Maker, Transform
from ..values.protocol import Trace
from . import rule_wrappers


class Checkpoint(Transform):
    name = "checkpoint"

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ref = t.call_traced(self.fun, args, kwargs)
        name = rule_wrappers.checkpointed(t, ref)
        return ref.finish(t, t.builder.call_then(name, ref.params, ref.result_types))


@Maker
def checkpoint(fun: Any) -> Transform:
    """The same function; the way back of reverse mode runs it again, so that nothing but its arguments is kept.

    Under forward mode it is as without.  Nested, each is run again in its own way back.
    """
    return Checkpoint(fun)
