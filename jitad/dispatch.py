"""From a call to compiled code: the Python side of a jitted function.

Calls go to machine code first; what that does not know comes here (``Dispatcher.__call__``).  Here the signature is
found, the program compiled if it is new, the arguments converted, and the code called with them.  A new entry point
is put in front of those the function has, so that the next call of its kind does not come here again.
"""

from __future__ import annotations

import contextvars
import inspect
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from . import compiler
from .big_stack import with_room
from .compiler import Compiled, Shape
from .errors import CompileError, JitadError, TypeInferenceError, UnsupportedError, with_columns
from .evaluation import evaluated, program_of
from .frontend.callables.custom import Custom
from .frontend.callables.traceable import POSITIONAL, Transform, positional, signature_of
from .frontend.captured.places import Place
from .frontend.columns.pack import returned
from .frontend.operations.builtin import location
from .frontend.trace.trace_program import Leaf
from .frontend.transforms import transforms
from .frontend.values.values import Operators, Options, context, tracing
from .lowering.python import callable as native_callable
from .lowering.python.entry_point import Entry
from .signature import Signature, Whole, signature
from .visualize import graph

DISABLED = os.environ.get("JITAD_DISABLE_JIT", "0") not in ("", "0")           # run Python as written
MOST_APART = 4096                # leaves of arguments for which a program is traced again, element by element
VERSIONS = 8                     # of the code for one signature, before those for what was outside are forgotten
ATTEMPTS = 10                    # to compile while other threads change what is outside
SHAPE_AFTER = 8                  # calls of a new shape with known types, after which it gets an entry point of its own


class Dispatcher:
    """What is compiled of one function.

    ``target`` is the object that the user holds, ``described_by`` the function whose parameters ``fun`` takes.
    """

    def __init__(self, target: Any, fun: Callable[..., Any], described_by: Callable[..., Any], options: Options,
                 static: tuple[str | int, ...]) -> None:
        self.target, self.fun, self.described_by, self.options, self.static = target, fun, described_by, options, static
        self.table: dict[Signature, list[Compiled]] = {}     # of each signature the newest code first
        self._line: list[Entry] = []          # the entries that calls go through, in order
        self._widened: dict[Signature, set[Place]] = {}      # what is an argument since it has changed
        self._constant: dict[Signature, set[Place]] = {}     # what has changed and cannot be one
        self.retired: list[Compiled] = []            # forgotten, but another thread may still be running in them
        self.whole = False                           # the first argument is an object that is taken apart while tracing
        self.compilations = 0
        self.seconds: Counter[str] = Counter()
        self._diverted = 0                           # the entry that calls go through again, while they do not
        self._last: Signature | None = None          # of the calls that came to Python
        self._shapes: Counter[tuple[Signature, Any]] = Counter()
        self._facts: tuple[tuple[str, ...], frozenset[str | int]] | None = None
        self._apart: set[Signature] = set()          # whose long lists are taken apart element by element

    # --- calls ------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if tracing() and _has_stand_in((args, kwargs)):
            return context().call(self.fun, *args, **kwargs)
        if DISABLED:
            return self.run_as_python(*args, **kwargs)
        if (run := _instead.get()) is not None:
            return run(self.target, args, kwargs)
        sig, leaves = self.signature(args, kwargs)
        compiled, captured = self._version(sig, leaves)
        for _ in range(ATTEMPTS if compiled is None else 0):
            made = self.compile(sig, leaves, args, kwargs)
            if made.signature != sig:
                sig, leaves = self.signature(args, kwargs)
            self.last, shape = sig, Shape(len(args), tuple(kwargs))
            again = shape in made.entries and not made.is_flat(shape)
            if again and self.signature(args, kwargs)[0] in self.table:      # unless a static value is no longer itself
                return self.target(*args, **kwargs)      # the new entry takes it, or it comes back here once more
            compiled, captured = self._version(sig, leaves)
            if compiled is not None:
                break
        if compiled is None:
            raise CompileError(f"what {name_of(self.fun)} reads from outside is something else each time: "
                               f"{made.unheld(leaves)}")
        self._seen(compiled, leaves, args, kwargs)
        self.last = sig
        given = [x for x, leaf in zip(leaves, sig.leaves) if isinstance(leaf, Leaf)]
        found = compiled.call(*given, *captured)
        return returned(found, (args, kwargs)) if compiled.packs else found

    def _version(self, sig: Signature, leaves: list[Any]) -> tuple[Compiled | None, list[Any]]:
        """The code that is the right one now, and what it takes from outside."""
        for compiled in self.table.get(sig, ()):
            captured = compiled.captured(leaves)
            if captured is not None:
                compiled.refresh(leaves)
                return compiled, captured
        return None, []

    def run_as_python(self, /, *args: Any, **kwargs: Any) -> Any:
        """Under ``JITAD_DISABLE_JIT``: a function runs as written, a derivative is evaluated by the interpreter."""
        if isinstance(self.fun, Transform):
            run = _instead.get()
            if run is not None:
                return run(self.target, args, kwargs)
            return with_room(lambda: evaluated(*program_of(self.fun, args, kwargs), args, kwargs))
        written = self.fun.fun if isinstance(self.fun, Custom) else self.fun
        return written(*args, **kwargs)

    def signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Signature, list[Any]]:
        """The signature of a call and its leaves in the form that machine code takes."""
        names, static = self.facts()
        args, kwargs = self._positional(args, kwargs)
        if self.whole and args:
            args = (Whole(args[0]), *args[1:])
        try:
            found = signature(args, kwargs, static, self.options.static_shapes)
            return self.apart(args, kwargs) if found[0] in self._apart else found
        except TypeInferenceError as e:
            for key, value in [*enumerate(args), *kwargs.items()]:
                name = names[key] if isinstance(key, int) and key < len(names) else key
                if not _has_signature(value, key in static):
                    raise TypeInferenceError(f"argument {name}: {e.message}", location(self.described_by),
                                             e.hint) from None
            raise
        except RecursionError:
            raise RecursionError("the arguments are nested too deep, or hold themselves") from None

    def apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Signature, list[Any]]:
        """``signature``, with each element of a long list an argument of its own."""
        args, kwargs = self._positional(args, kwargs)
        return signature(args, kwargs, self.facts()[1], self.options.static_shapes, long=False)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with as many arguments by position as possible, the others in order of their names.

        What ``**kwargs`` takes stays in order, which the function can see.
        """
        if not kwargs:
            return args, kwargs
        names, rest, moved = self.facts()[0], dict(kwargs), list(args)
        for name in names[len(args):] if len(args) >= self._by_position_alone else ():
            if name not in rest:
                break
            moved.append(rest.pop(name))
        return tuple(moved), {k: rest[k] for k in (rest if self._takes_any_name else sorted(rest))}

    @cached_property
    def _takes_any_name(self) -> bool:
        return any(p.kind is p.VAR_KEYWORD for p in parameters(self.described_by))

    @cached_property
    def _by_position_alone(self) -> int:
        return sum(p.kind is p.POSITIONAL_ONLY for p in parameters(self.described_by))

    def facts(self) -> tuple[tuple[str, ...], frozenset[str | int]]:
        """Names of the parameters that can be passed by position; positions and names of the static ones."""
        if self._facts is None:
            names = tuple(p.name for p in parameters(self.described_by) if p.kind in POSITIONAL)
            known = positional(self.described_by) if self.static and parameters(self.described_by) else []
            static = [_static_name(self.described_by, s, known) for s in self.static]
            positions = [known.index(s) for s in static if s in known]
            self._facts = names, frozenset([*static, *positions])
        return self._facts

    def takes(self) -> int | None:
        """How many parameters there are, ``None`` where Python cannot tell."""
        try:
            return len(signature_of(self.described_by).parameters)
        except (TypeError, ValueError):
            return None

    # --- compiling --------------------------------------------------------------------------------

    def compile(self, sig: Signature, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Compiled:
        """Compile for a signature, unless another thread did so meanwhile.  On an error nothing is left behind."""
        return with_room(lambda: self._compile_either(sig, leaves, args, kwargs))

    def _compile_either(self, sig: Signature, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
                        ) -> Compiled:
        """Long lists are columns unless the program does with them what only lists of known length can do."""
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
        with compiler.lock:
            known, _ = self._version(sig, leaves)
            if known is not None:
                return known
            self._check_call(args, kwargs)
            names, _ = self.facts()
            shape = Shape(len(args), tuple(kwargs))
            widened = self._widened.setdefault(sig, set()).union(*(c.changed(leaves) for c in self.table.get(sig, ())))
            widened -= self._constant.setdefault(sig, set())
            compiled = compiler.compile_function(self.fun, sig, shape, names, options, leaves, frozenset(widened))
            self._widened[sig] = widened & set(compiled.program.captured)
            self._constant[sig] |= widened - self._widened[sig]
            self.compilations += 1
            self.seconds.update(compiled.seconds)
            if len(self.table.get(sig, ())) >= VERSIONS:
                self._retire(sig)
            self.table.setdefault(sig, []).insert(0, compiled)
            if shape in compiled.entries:
                self._install(compiled, shape, leaves)
            return compiled

    def _retire(self, sig: Signature) -> None:
        """Forget the code of a signature for what is outside no more."""
        gone = self.table.pop(sig)
        self.retired += gone
        dropped = {id(entry) for compiled in gone for entry in compiled.entries.values()}
        self._line = [entry for entry in self._line if id(entry) not in dropped]
        for entry, following in zip(self._line, [*self._line[1:], None]):
            entry.next.value = following.code if following is not None else native_callable.SLOW_VECTORCALL
        self._go_through(self._line[0].code if self._line else native_callable.SLOW_VECTORCALL)

    def _check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call that the function does not take raises what it would raise in Python."""
        try:
            found = signature_of(self.described_by)
        except (TypeError, ValueError):
            return
        free = [p.name for p in found.parameters.values() if p.kind is p.POSITIONAL_ONLY and self._takes_any_name]
        try:
            found.bind(*args, **{k: v for k, v in kwargs.items() if k not in free})      # which ``bind`` refuses
        except TypeError as e:
            raise TypeError(f"{name_of(self.described_by)}() {e}") from None

    def _seen(self, compiled: Compiled, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Give a shape of call that comes often an entry point of its own."""
        shape = Shape(len(args), tuple(kwargs))
        if shape in compiled.entries or not compiled.enterable():
            return
        self._shapes[compiled.signature, shape] += 1
        if self._shapes[compiled.signature, shape] == SHAPE_AFTER:
            with_room(lambda: self._add(compiled, shape, leaves))

    def _add(self, compiled: Compiled, shape: Shape, leaves: list[Any]) -> None:
        with compiler.lock:
            compiled.add_shape(shape, self.facts()[0])
            self._install(compiled, shape, leaves)

    def _install(self, compiled: Compiled, shape: Shape, leaves: Sequence[Any]) -> None:
        """Put an entry in front of those that calls go through."""
        entry = compiled.entries[shape]
        if entry.hints is not None:
            entry.hints.refresh(leaves)
        entry.next.value = self._line[0].code if self._line else native_callable.SLOW_VECTORCALL
        self._line.insert(0, entry)
        self._go_through(entry.code)

    def _go_through(self, entry: int) -> None:
        """Let calls go to this entry, now or when they are not diverted any more."""
        if _diverting:
            self._diverted = entry
        else:
            native_callable.set_entry(self.target, entry)

    def divert(self) -> None:
        """Let all calls come to Python until ``resume``."""
        if not self._diverted:
            self._diverted = native_callable.entry_of(self.target)
            native_callable.set_entry(self.target, native_callable.SLOW_VECTORCALL)

    def resume(self) -> None:
        if self._diverted:
            native_callable.set_entry(self.target, self._diverted)
            self._diverted = 0

    # --- looking inside ---------------------------------------------------------------------------

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
        """The signature of these arguments and their leaves, or without any the last call's."""
        if args or kwargs or self.takes() == 0:
            return self.signature(args, kwargs)
        last = self.last
        if last is None:
            raise ValueError(f"{name_of(self.fun)} has not been called yet: pass arguments, or jitad.spec(…) for each")
        return last, next((c.program.leaves for c in self.table.get(last, ())), ())

    def text(self, stage: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """A stage of the compilation as text."""
        return self._looked_at(args, kwargs, lambda sig, options, leaves: compiler.stage_text(
            self.fun, sig, options, stage, leaves))

    def graph(self, stage: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """A stage of the IR as a graph."""
        return self._looked_at(args, kwargs, lambda sig, options, leaves: graph(compiler.stage_module(
            self.fun, sig, options, stage, leaves)))

    def _looked_at(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                   look: Callable[[Signature, Options, Sequence[Any]], str]) -> str:
        sig, leaves = self.signature_for(args, kwargs)
        try:
            return with_room(lambda: look(sig, self.options, leaves))
        except (UnsupportedError, TypeError) as e:
            if not with_columns(e):
                raise
            apart, each = self.apart(args, kwargs) if args or kwargs else (sig, leaves)
            return with_room(lambda: look(apart, self.options.one_by_one(), each))

    def forget(self) -> None:
        """Drop all code; the next call compiles anew."""
        self.last = self.last                        # while what took it is known
        native_callable.set_entry(self.target, native_callable.SLOW_VECTORCALL)
        self._diverted = 0
        self._line.clear()
        self.retired += [compiled for versions in self.table.values() for compiled in versions]
        self.table.clear()
        self._shapes.clear()
        self._apart.clear()


def make(target: Any, fun: Callable[..., Any], options: dict[str, Any], static: tuple[str | int, ...],
         derive: tuple[str, Any] | None) -> Dispatcher:
    """The dispatcher for a function, or for a derivative of it: the name of a transform and its argnums."""
    program = fun
    if derive is not None:
        kind, argnums = derive
        program = getattr(transforms, kind).make(fun, argnums)
    made = Dispatcher(target, program, fun, Options(**options), static)
    _all.add(made)
    return made


# --- calls that go elsewhere ----------------------------------------------------------------------

Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_all: weakref.WeakSet[Dispatcher] = weakref.WeakSet()
_diverting: list[int] = []                           # the threads whose calls go elsewhere now, by their numbers
_instead: contextvars.ContextVar[Run | None] = contextvars.ContextVar("jitad_instead", default=None)


@contextmanager
def calls_go_to(run: Run) -> Iterator[None]:
    """Within, ``run(function, args, kwargs)`` evaluates the calls that this thread makes of jitted functions.

    Other threads' calls are found to be none of those, and go on to machine code by the slow way meanwhile.
    """
    here = threading.get_ident()
    with compiler.lock:
        _diverting.append(here)
        for d in list(_all):
            d.divert()
    token = _instead.set(run)
    try:
        yield
    finally:
        _instead.reset(token)
        with compiler.lock:
            _diverting.remove(here)
            _resume()


def _resume() -> None:
    for d in list(_all) if not _diverting else ():
        d.resume()


def _only_here() -> None:
    """In a child process there are no other threads."""
    _diverting[:] = [number for number in _diverting if number == threading.get_ident()]
    _resume()


os.register_at_fork(after_in_child=_only_here)


def parameters(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a callable, none where Python cannot tell."""
    try:
        return list(signature_of(fun).parameters.values())
    except (TypeError, ValueError):
        return []


def _static_name(fun: Callable[..., Any], key: str | int, names: Sequence[str]) -> str:
    """The name of the parameter that one of ``jit(static=…)`` stands for."""
    if isinstance(key, int) and -len(names) <= key < len(names):
        return names[key]
    known = parameters(fun)
    any_name = any(p.kind is p.VAR_KEYWORD for p in known)
    if isinstance(key, str) and (any_name or key in [*names, *(p.name for p in known)]):
        return key
    raise TypeError(f"jit(static=…): {name_of(fun)}() has no parameter {key!r}: there are {', '.join(names)}")


def _has_signature(value: Any, static: bool) -> bool:
    """Whether a value can be an argument."""
    try:
        signature((value,), {}, frozenset([0] if static else []), False)
    except TypeInferenceError:
        return False
    return True


def name_of(fun: Any) -> str:
    return getattr(fun, "__name__", type(fun).__name__)


def _has_stand_in(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return any(map(_has_stand_in, x))
    if isinstance(x, dict):
        return any(map(_has_stand_in, x.values()))
    return isinstance(x, Operators)
