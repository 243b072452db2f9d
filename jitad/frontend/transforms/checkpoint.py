"""``checkpoint``: a function that the reverse sweep recomputes."""

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
    """Returns the same function; the reverse sweep recomputes it, so that only its arguments are saved.

    Forward mode is not affected.  If checkpoints are nested, each is recomputed in its own reverse sweep.
    """
    return Checkpoint(fun)
