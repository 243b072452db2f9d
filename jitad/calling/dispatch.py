"""The Python side of a jitted function: from a call to compiled code.

A call first tries the entry points in machine code.  If none of them takes it, it goes to ``Dispatcher.__call__``,
which finds the signature, compiles the program if there is no code for it, converts the arguments, and calls the code.
A new entry point becomes the first that calls try, so that the next call of this kind does not reach Python.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from types import ModuleType
from typing import Any

from ..caching import cache
from ..compiler_threads import with_room
from ..errors import CompileError, JitadError, TypeInferenceError, UnsupportedError, switched_on, with_columns
from ..frontend.captured.leaves import Leaf
from ..frontend.captured.options import Options
from ..frontend.captured.places import Place
from ..frontend.columns.pack import returned
from ..lowering.python import callable as native_callable
from ..separate.store import Shared
from .compiled import Compiled, LongLoop, Shape, lock
from .entry_chain import EntryChain, all_diverted
from .parameters import Parameters, name_of
from .signature import Classify, Signature, Whole, signature

_STAND_INS = "jitad.frontend.values.values"              # while this module is not loaded, nothing is traced
DISABLED = switched_on("JITAD_DISABLE_JIT")           # run functions as plain Python
MOST_APART = 4096                # most argument leaves of a program that is traced again element by element
VERSIONS = 8                     # most versions of the code for one signature, for different captured state
ATTEMPTS = 10                    # most compilations for a call, if other threads change captured state
SHAPE_AFTER = 8                  # calls of a new shape with known types before it gets its own entry point


class Dispatcher:
    """The compiled code of one function or of a derivative of it, and the calls that no entry point takes.

    ``target``: the object that the user holds.  ``written``: the function as the user wrote it.  ``derive``: the name
    of a transform and its argnums.  ``prepare`` is called before anything is traced.  ``cached``: code is kept on disk
    (``caching``).
    """

    def __init__(self, target: Any, written: Callable[..., Any], options: Options, static: tuple[str | int, ...],
                 derive: tuple[str, Any] | None, prepare: Callable[[], None], cached: bool = False) -> None:
        self.target, self.written, self.options, self.derive = target, written, options, derive
        self.parameters, self._prepare = Parameters(written, static), prepare
        self._static, self.cached = static, cached and cache.is_on(options)
        if not self.cached:
            _compiler()
        self.table: dict[Signature, list[Compiled]] = {}     # the versions for each signature, newest first
        self.entries = EntryChain(target)
        self.retired: list[Compiled] = []            # dropped, but another thread may still be running them
        self.whole = False                           # True if the first argument is an object read by field
        self.compilations = self.loaded = 0          # the second: from the disk
        self.unstorable: set[str] = set()            # why code is not on disk
        self._fresh = False                          # True if what is on disk is not used
        self.shared = Shared()                       # code of the function for programs that call it
        self.seconds: Counter[str] = Counter()
        self._widened: dict[Signature, set[Place]] = {}      # captured values that became parameters by changing
        self._constant: dict[Signature, set[Place]] = {}     # captured values that changed but cannot be parameters
        self._last: Signature | None = None          # the signature of the last call that reached Python
        self._shapes: Counter[tuple[Signature, Any]] = Counter()
        self._again: set[int] = set()                # threads that try machine code again with new hints
        self._long: set[Signature] = set()           # signatures of calls in which inner loops ran for long
        self._apart: set[Signature] = set()          # signatures whose long lists are read element by element

    kind: Classify | None = None                     # finds the type of a leaf, if that is not ``classify``

    @cached_property
    def fun(self) -> Callable[..., Any]:
        """The function that is compiled.  It imports the compiler."""
        self._prepare()
        if self.derive is None:
            return self.written
        from ..frontend.transforms import transforms
        kind, argnums = self.derive
        made: Callable[..., Any] = getattr(transforms, kind).make(self.written, argnums)
        return made

    # --- calls ------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if (values := sys.modules.get(_STAND_INS)) is not None and values.tracing() and _has_stand_in((args, kwargs)):
            return values.context().call(self.fun, *args, **kwargs)
        if DISABLED:
            return self.run_as_python(*args, **kwargs)
        if (run := _instead.get()) is not None:
            return run(self.target, args, kwargs)
        return self.launch(args, kwargs)

    def launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call; compiles first if there is no code for it."""
        sig, leaves = self.signature(args, kwargs)
        compiled, captured, renewed = self._version(sig, leaves)
        if compiled is not None and renewed and Shape(len(args), tuple(kwargs)) in compiled.entries:
            me = threading.get_ident()
            if me not in self._again:                    # machine code took hints for state that has changed
                self._again.add(me)
                try:
                    return self.target(*args, **kwargs)
                finally:
                    self._again.discard(me)
        for _ in range(ATTEMPTS if compiled is None else 0):
            made = self.compile(sig, leaves, args, kwargs)
            if made.signature != sig:
                sig, leaves = self.signature(args, kwargs)
            self.last, shape = sig, Shape(len(args), tuple(kwargs))
            again = shape in made.entries and not made.is_flat(shape)
            if again and self.signature(args, kwargs)[0] in self.table:      # unless a static value has changed
                return self.target(*args, **kwargs)      # taken by the new entry, or comes back here once more
            compiled, captured, _ = self._version(sig, leaves)
            if compiled is not None:
                break
        if compiled is None:
            raise CompileError(f"what {name_of(self.fun)} reads from outside is something else each time: "
                               f"{made.unheld(leaves)}")
        self._seen(compiled, leaves, args, kwargs)
        self.last = sig
        given = [x for x, leaf in zip(leaves, sig.leaves) if isinstance(leaf, Leaf)]
        try:
            found = compiled.call(*given, *captured)
        except LongLoop:
            return self.launch(args, kwargs)
        return returned(found, (args, kwargs)) if compiled.packs else found

    def _version(self, sig: Signature, leaves: list[Any]) -> tuple[Compiled | None, list[Any], bool]:
        """The version whose guards hold now, with the captured values that it takes; None if there is none.

        The third result is true if its hints were out of date, so that its entry may take the call after all.
        """
        for compiled in self.table.get(sig, ()):
            captured = None if compiled.failures.long else compiled.captured(leaves)
            if captured is not None:
                return compiled, captured, compiled.refresh(leaves)
        return None, [], False

    def run_as_python(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a function as plain Python, and a derivative in the interpreter: for ``JITAD_DISABLE_JIT``."""
        from ..evaluation import evaluated, program_of
        from ..frontend.callables.custom import Custom
        from ..frontend.callables.traceable import Transform
        if isinstance(self.fun, Transform):
            run = _instead.get()
            if run is not None:
                return run(self.target, args, kwargs)
            return with_room(lambda: evaluated(*program_of(self.fun, args, kwargs), args, kwargs))
        written = self.fun.fun if isinstance(self.fun, Custom) else self.fun
        return written(*args, **kwargs)

    def signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Signature, list[Any]]:
        """The signature of a call, and its leaves in the form that machine code takes.

        Raises TypeInferenceError for an argument that has no type, and RecursionError for one that is nested too
        deeply.
        """
        names, static = self.parameters.names, self.parameters.static
        args, kwargs = self.parameters.ordered(args, kwargs)
        if self.whole and args:
            args = (Whole(args[0]), *args[1:])
        try:
            found = signature(args, kwargs, static, self.options.static_shapes, kind=self.kind)
            return self.apart(args, kwargs) if found[0] in self._apart else found
        except TypeInferenceError as e:
            from ..frontend.operations.builtin import location
            for key, value in [*enumerate(args), *kwargs.items()]:
                name = names[key] if isinstance(key, int) and key < len(names) else key
                if not self._has_signature(value, key in static):
                    raise TypeInferenceError(f"argument {name}: {e.message}", location(self.parameters.fun),
                                             e.hint) from None
            raise
        except RecursionError:
            raise RecursionError("the arguments are nested too deep, or hold themselves") from None

    def apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Signature, list[Any]]:
        """``signature``, with each element of a long list as a separate leaf."""
        args, kwargs = self.parameters.ordered(args, kwargs)
        return signature(args, kwargs, self.parameters.static, self.options.static_shapes, long=False, kind=self.kind)

    def _has_signature(self, value: Any, static: bool) -> bool:
        """True if a value can be an argument."""
        try:
            signature((value,), {}, frozenset([0] if static else []), False, kind=self.kind)
        except TypeInferenceError:
            return False
        return True

    # --- compiling --------------------------------------------------------------------------------

    def compile(self, sig: Signature, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Compiled:
        """Compiles for a signature unless another thread has done so meanwhile; an error leaves no trace."""
        return with_room(lambda: self._compile_either(sig, leaves, args, kwargs))

    def _compile_either(self, sig: Signature, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
                        ) -> Compiled:
        """Compiles with long lists as columns, or element by element if the program needs lists of known length."""
        if self.cached and sig.has_columns():                # do not try again what did not work then
            apart, each = self.apart(args, kwargs)
            if self._lookup(self.options.one_by_one(), apart, each).found is not None:
                self._apart.add(sig)
                return self._compile(apart, each, args, kwargs, self.options.one_by_one())
        try:
            return self._compile(sig, leaves, args, kwargs, self.options)
        except (UnsupportedError, TypeError) as e:
            if not with_columns(e):
                raise
            apart, leaves = self.apart(args, kwargs)
            if len(leaves) > MOST_APART:
                raise
            compiled = None
            with suppress(JitadError, *([] if isinstance(e, TypeError) else [TypeError])):
                compiled = self._compile(apart, leaves, args, kwargs, self.options.one_by_one())
            if compiled is None:
                raise
            if apart != sig:
                self._apart.add(sig)
            return compiled

    def _compile(self, sig: Signature, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                 options: Options) -> Compiled:
        with lock:
            known, *_ = self._version(sig, leaves)
            if known is not None:
                return known
            if any(compiled.failures.long for compiled in self.table.get(sig, ())):
                self._long.add(sig)
                self._retire(sig)
            if sig in self._long:
                options = options.in_strips()
            stored = self._lookup(options, sig, leaves) if self.cached else None
            compiled = stored.found if stored is not None else None
            shape = Shape(len(args), tuple(kwargs))
            if compiled is not None:
                self.loaded += 1
            else:
                compiled = self._compile_anew(sig, leaves, args, kwargs, options)
                if stored is not None and not stored.store(compiled):
                    self.unstorable.add(stored.reason)
            if len(self.table.get(sig, ())) >= VERSIONS:
                self._retire(sig)
            self.table.setdefault(sig, []).insert(0, compiled)
            if shape in compiled.entries:
                self.entries.add(compiled.entries[shape], leaves)
            return compiled

    def _lookup(self, options: Options, sig: Signature, leaves: list[Any]) -> cache.Lookup:
        subject = cache.Subject(self.written, self.derive, self._static, self.whole)
        return cache.Lookup(subject, options, sig, leaves, not self._fresh and not os.environ.get("JITAD_DUMP"))

    def _compile_anew(self, sig: Signature, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                      options: Options) -> Compiled:
        self.parameters.check_call(args, kwargs)
        shape = Shape(len(args), tuple(kwargs))
        widened = self._widened.setdefault(sig, set()).union(*(c.changed(leaves) for c in self.table.get(sig, ())))
        widened -= self._constant.setdefault(sig, set())
        compiled = self.translate(sig, shape, options, leaves, frozenset(widened))
        self._widened[sig] = widened & set(compiled.program.captured)
        self._constant[sig] |= widened - self._widened[sig]
        self.compilations += 1
        self.seconds.update(compiled.seconds)
        return compiled

    def translate(self, sig: Signature, shape: Shape, options: Options, leaves: list[Any], widened: frozenset[Place]
                  ) -> Compiled:
        """New code for a signature."""
        made: Compiled = _compiler().compile_function(self.fun, sig, shape, self.parameters.names, options, leaves,
                                                       widened, self.written, self.cached)
        return made

    def _retire(self, sig: Signature) -> None:
        """Drops all code for a signature: it was compiled for captured state that has changed."""
        gone = self.table.pop(sig)
        self.retired += gone
        self.entries.drop({id(entry) for compiled in gone for entry in compiled.entries.values()})

    def _seen(self, compiled: Compiled, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts the calls of this shape, and gives a frequent shape its own entry point."""
        shape = Shape(len(args), tuple(kwargs))
        if shape in compiled.entries:
            return
        self._shapes[compiled.signature, shape] += 1
        if self._shapes[compiled.signature, shape] == SHAPE_AFTER and with_room(compiled.enterable):
            with_room(lambda: self._add(compiled, shape, leaves))

    def _add(self, compiled: Compiled, shape: Shape, leaves: list[Any]) -> None:
        with lock:
            entry = compiled.add_shape(shape, self.parameters.names)
            if entry is not None:
                self.entries.add(entry, leaves)

    # --- inspection -------------------------------------------------------------------------------

    @property
    def last(self) -> Signature | None:
        """The signature of the last call."""
        mark = native_callable.last_of(self.target)
        return next((sig for sig, versions in self.table.items() if any(
            entry.mark == mark for compiled in versions for entry in compiled.entries.values())), self._last)

    @last.setter
    def last(self, sig: Signature | None) -> None:
        self._last = sig
        native_callable.forget_last(self.target)

    def signature_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Signature, Sequence[Any]]:
        """The signature of these arguments and their leaves; without arguments, those of the last call."""
        if args or kwargs or self.parameters.count == 0:
            return self.signature(args, kwargs)
        last = self.last
        if last is None:
            raise ValueError(f"{name_of(self.fun)} has not been called yet: pass arguments, or jitad.spec(…) for each")
        return last, next((c.program.leaves for c in self.table.get(last, ())), ())

    def text(self, stage: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The text of one stage of the compilation."""
        compiler = _compiler()
        more = {"arch": arch} if stage == "ptx" and (arch := self.arch_among(kwargs)) else {}
        found: str = self.looked_at(args, kwargs, lambda sig, options, leaves: compiler.stage_text(
            self.fun, sig, options, stage, leaves, **more))
        return found

    def arch_among(self, kwargs: dict[str, Any]) -> str | None:
        """Takes the option ``arch`` of ``inspect`` out of the arguments, unless the function has such a parameter."""
        return None if "arch" in self.parameters.names else kwargs.pop("arch", None)

    def graph(self, stage: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The control-flow graph of one stage of the IR."""
        from ..visualize import graph
        compiler = _compiler()
        found: str = self.looked_at(args, kwargs, lambda sig, options, leaves: graph(compiler.stage_module(
            self.fun, sig, options, stage, leaves)))
        return found

    def looked_at(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                  look: Callable[[Signature, Options, Sequence[Any]], Any]) -> Any:
        """The result of ``look`` for the signature of these arguments."""
        sig, leaves = self.signature_for(args, kwargs)
        try:
            return with_room(lambda: look(sig, self.options, leaves))
        except (UnsupportedError, TypeError) as e:
            if not with_columns(e):
                raise
            apart, each = self.apart(args, kwargs) if args or kwargs else (sig, leaves)
            return with_room(lambda: look(apart, self.options.one_by_one(), each))

    def forget(self) -> None:
        """Drops all code; the next call compiles again, and replaces what is on disk."""
        self._fresh = True
        self.last = self.last                        # while the entry that took the last call is still known
        self.entries.clear()
        self.retired += [compiled for versions in self.table.values() for compiled in versions]
        self.table.clear()
        self.shared.units.clear()
        self._shapes.clear()
        self._apart.clear()


def _compiler() -> ModuleType:
    """The compiler; the first call imports it, which takes room on the stack."""
    def load() -> ModuleType:
        from .. import compiler
        return compiler
    return with_room(load)


# --- redirected calls -----------------------------------------------------------------------------

Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_instead: contextvars.ContextVar[Run | None] = contextvars.ContextVar("jitad_instead", default=None)


def redirected() -> bool:
    """True if another function evaluates this thread's calls of jitted functions."""
    return _instead.get() is not None


@contextmanager
def calls_go_to(run: Run) -> Iterator[None]:
    """A context in which ``run(function, args, kwargs)`` evaluates this thread's calls of jitted functions.

    The calls of other threads also go through Python meanwhile, and run machine code from there.
    """
    with all_diverted():
        token = _instead.set(run)
        try:
            yield
        finally:
            _instead.reset(token)


def _has_stand_in(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return any(map(_has_stand_in, x))
    if isinstance(x, dict):
        return any(map(_has_stand_in, x.values()))
    return isinstance(x, sys.modules[_STAND_INS].Operators)
