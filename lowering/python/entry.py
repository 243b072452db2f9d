"""The description of an entry point, and the memory that its code refers to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ...frontend.captured.guards import Guard
    from ...frontend.captured.leaves import Leaf
    from ...frontend.captured.places import Place
    from ...ir.types import Type
    from ...pytree import Structure
    from .hints import Hints
    from .unbox import Argument


class Function(Protocol):
    """The name and the types of a function of the IR."""

    @property
    def name(self) -> str: ...
    @property
    def param_types(self) -> Sequence[Type]: ...
    @property
    def result_types(self) -> Sequence[Type]: ...


@dataclass(eq=False)
class Entry:
    """The description of an entry point, and the objects that its code refers to.

    A call passes ``count`` arguments by position, then those named ``keywords``, in this order.  ``effort`` is the
    result of ``run_length.effort``.  ``build`` makes the result from a flat tuple of leaves if machine code cannot.
    ``error`` makes the exception for a status and four words that the program leaves.  ``next`` is the entry at which
    calls continue that this one does not take.  ``guards`` and ``captured``: the conditions on captured state, and the
    captured values that follow the arguments; ``hints``: their addresses.  ``fixed``: leaves of the result that are not
    results of ``function``, by number.  ``flush``: subnormal numbers are zero in the body.  ``address``: of the
    compiled function, if its code was generated earlier.  ``code``: the address of the entry itself once it is
    compiled.
    """

    name: str
    function: Function
    arguments: Sequence[Argument]
    count: int
    keywords: tuple[str, ...]
    result: Structure
    effort: str
    recursive: bool
    error: Callable[..., BaseException]
    build: Callable[[tuple[Any, ...]], Any] | None = None
    fixed: dict[int, Any] = field(default_factory=dict)
    guards: Sequence[Guard] = ()
    captured: Sequence[tuple[Place, Leaf]] = ()
    hints: Hints | None = None
    next: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    flush: bool = False
    address: int = 0
    code: int = 0

    @property
    def mark(self) -> int:
        """The identifier of this entry: the address of ``next``."""
        return ctypes.addressof(self.next)
