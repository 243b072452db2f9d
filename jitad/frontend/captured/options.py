"""The options of ``jit`` as the compiler receives them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Options:
    """The options of ``jit`` that tracing depends on."""

    target: str = "cpu"
    boundscheck: bool = True
    static_shapes: bool = False
    fastmath: bool = False
    flush_subnormals: bool | None = None
    checkpoint: str | int | None = None
    parallel: bool = False
    separate: bool | None = None          # of a function that other compiled functions call
    in_range: bool = False                # set for library functions whose indices need no bounds checks
    long_lists: bool = True               # long lists are passed as columns (``columns``)
    strips: bool = False                  # loops inside of others poll for interrupts too

    def one_by_one(self) -> Options:
        """The same options, but the elements of long lists are separate arguments."""
        return replace(self, long_lists=False)

    def in_strips(self) -> Options:
        """The same options, but all loops poll for interrupts: for calls in which inner loops run for long."""
        return replace(self, strips=True)
