"""A jitted function before its first call: the object that every jitted function refers to.

The first call imports the compiler and makes a dispatcher; ``import jitad`` does not.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..compiler_threads import with_room
from ..errors import shown
from ..locks import handles as handle_lock
from ..lowering.python import callable as native_callable
from ..lowering.python.callable import Jit

if TYPE_CHECKING:
    from .dispatch import Dispatcher


class Handle:
    """A jitted function before its first call or inspection: the Python function and its options.

    The first call imports the compiler; ``import jitad`` does not.  ``derive``: the name of a transform and its
    argnums; ``whole``: the first argument is an object, of which the attributes that the program uses are read at each
    call.
    """

    _lock = handle_lock

    @staticmethod
    def register() -> None:
        """Register the transforms; imports ``api``, which a process that only loads a pickled function has not."""
        importlib.import_module("jitad.api").register_transforms()

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any], static: tuple[str | int, ...],
                 derive: tuple[str, Any] | None = None, whole: bool = False, target: Any = None) -> None:
        self.fun, self.options, self.static, self.derive, self.whole = fun, options, static, derive, whole
        self.dispatcher: Dispatcher | None = None
        self.target = native_callable.make(Handle.__call__, self) if target is None else target

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return (self.dispatcher or self.wake())(*args, **kwargs)
        except Exception as error:
            error.__traceback__ = shown(error)
            raise

    def wake(self) -> Dispatcher:
        """The dispatcher; makes it on the first call, which imports the compiler."""
        return with_room(self._wake)

    def _wake(self) -> Dispatcher:
        from ..frontend.captured.options import Options
        kind = self._dispatcher_class()
        with Handle._lock:
            if self.dispatcher is None:
                options = {name: value for name, value in self.options.items() if name != "cache"}
                made = kind(self.target, self.fun, Options(**options), self.static, self.derive,
                            Handle.register, "cache" in self.options)
                made.whole = self.whole
                self.dispatcher = self.dispatcher or made        # a signal handler may have made it meanwhile
        return self.dispatcher

    def _dispatcher_class(self) -> type[Dispatcher]:
        """The class of the dispatcher, which is imported when it is needed."""
        if "target" in self.options:
            from ..gpu.dispatch import DeviceDispatcher
            return DeviceDispatcher
        from .dispatch import Dispatcher
        return Dispatcher


def dispatcher(jitted: Any) -> Dispatcher:
    """The dispatcher of a jitted function, which compiles it and holds its code."""
    handle = handle_of(jitted)
    return handle.dispatcher or handle.wake()


def handle_of(jitted: Any) -> Handle:
    found: Handle = jitted._function._self if is_bound(jitted) else jitted._self
    return found


def is_bound(jitted: Any) -> bool:
    """True if it calls another jitted function with an object as first argument (``bound_to``)."""
    return type(jitted._function) is Jit


def given_to(jitted: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call with the bound object, if any, in front."""
    return (jitted._self, *args) if is_bound(jitted) else args
