"""Programs in plain Python with the C that follows them, and their cases for the benchmark.

A C function takes the arguments of the Python function in order: an array as its sizes (``long``) followed by the
pointer, a float as ``double``, an int as ``long``.  It returns the value as ``double``.  An adjoint, named
``NAME_gradient``, takes in addition one pointer for each differentiated argument; it writes the gradient there and
returns the value.
"""

from __future__ import annotations

import shutil
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.case import FAST, OURS, Bench, Case, Program
from bench.peers.common import c_call, compiled
from jitad import jit

WIDE = ("-mprefer-vector-width=512",)
# The compilers of C and their flags.  The best of the strict ones, and the best of the others, count.
COMPILERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "C gcc": ("gcc", ()), "C gcc 512": ("gcc", WIDE), "C clang": ("clang", ()), "C clang 512": ("clang", WIDE),
    "C -ffast-math gcc": ("gcc", ("-ffast-math",)), "C -ffast-math gcc 512": ("gcc", ("-ffast-math", *WIDE)),
    "C -ffast-math clang": ("clang", ("-ffast-math",)), "C -ffast-math clang 512": ("clang", ("-ffast-math", *WIDE))}


@dataclass(frozen=True)
class Ordinary:
    """A program: a Python function of numbers and arrays that returns a float.

    ``formulations`` are the same program written otherwise; each takes the same arguments, unless ``others`` has its
    own (the same numbers in another layout or dtype), and its gradient may then have another layout too: only its
    value is compared.  ``grad`` are the positions of the differentiated arguments; without any there is no gradient.
    ``adjoint``: there is one by hand, in C.  ``jax`` is the same in ``jax.numpy``, called as ``jax(jnp, *args)``.
    """

    function: Callable[..., float]
    args: Sequence[Any]
    grad: tuple[int, ...] = ()
    formulations: Mapping[str, Callable[..., float]] = field(default_factory=dict)
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    adjoint: bool = False
    jax: Callable[..., Any] | None = None
    numba: bool = True
    rtol: float = 1e-9

    @property
    def name(self) -> str:
        return self.function.__name__


def cases(bench: Bench, field_name: str, programs: Sequence[Ordinary]) -> Iterator[Case]:
    """The cases of the programs of a field: value, and gradient where there is one."""
    collected = getattr(bench, "programs", None)
    if collected is not None:                          # ``bench.acting`` asks for the programs alone
        collected.extend(programs)
        return
    for p in programs:
        yield _value(bench, field_name, p)
        if p.grad:
            yield _gradient(bench, field_name, p)


def _value(bench: Bench, source: str, p: Ordinary) -> Case:
    case = bench.case(p.name, "value", rtol=p.rtol)
    for label, f, args, options in _ours(p):
        case.add(label, lambda f=f, args=args, options=options: _call(jit(f, **options), args))
    _add_c(case, source, p.name, in_c(p.args), lambda value: value)
    if p.numba:
        case.add("Numba", lambda: _call(in_numba(p.function), p.args))
    if p.jax is not None:
        case.add("JAX", lambda: _in_jax(p, gradient=False))
    return case


def _gradient(bench: Bench, source: str, p: Ordinary) -> Case:
    case = bench.case(p.name, "gradient", rtol=max(p.rtol, 1e-7))
    for label, f, args, options in _ours(p):
        value_only = label.removeprefix("jitad: ") in p.others
        case.add(label, lambda f=f, args=args, options=options, value_only=value_only:
                 _derived(jit(f, grad=p.grad, **options), args, value_only))
    if p.adjoint:
        bars = [np.zeros_like(np.asarray(p.args[k], dtype=getattr(p.args[k], "dtype", np.float64))) for k in p.grad]
        bars = [b if b.ndim else b.reshape(1) for b in bars]
        got = [b if np.ndim(p.args[k]) else b[:1].reshape(()) for k, b in zip(p.grad, bars)]
        _add_c(case, source, f"{p.name}_gradient", [*in_c(p.args), *bars], lambda value: (value, got))
    if p.jax is not None:
        case.add("JAX", lambda: _in_jax(p, gradient=True))
    return case


def _ours(p: Ordinary) -> Iterator[tuple[str, Callable[..., float], Sequence[Any], dict[str, Any]]]:
    yield OURS, p.function, p.args, {}
    yield FAST, p.function, p.args, {"fastmath": True}
    for name, f in p.formulations.items():
        yield f"jitad: {name}", f, p.others.get(name, p.args), {}


def _call(f: Callable[..., float], args: Sequence[Any]) -> Program:
    return lambda: f(*args)


def _derived(f: Any, args: Sequence[Any], value_only: bool) -> Program:
    """Value and gradient; of a formulation with its own arguments the value is compared, the gradient is not."""
    if value_only:
        return lambda: (f.value_and_grad(*args)[0], None)

    def run() -> Any:
        value, grads = f.value_and_grad(*args)
        return value, list(grads) if isinstance(grads, tuple) else [grads]
    return run


def in_c(args: Sequence[Any]) -> list[Any]:
    return [part for a in args for part in ([*a.shape, a] if isinstance(a, np.ndarray) else [a])]


def _add_c(case: Case, source: str, function: str, args: Sequence[Any], results: Callable[[float], Any]) -> None:
    for label, (compiler, flags) in COMPILERS.items():
        if shutil.which(compiler) is None:
            if case.peers is None or "c" in case.peers:
                case.cannot[label] = f"{compiler} is not installed"
            continue

        def make(compiler: str = compiler, flags: tuple[str, ...] = flags) -> Program:
            call = c_call(getattr(compiled(f"ordinary/{source}", *flags, compiler=compiler), function), *args)
            return lambda: results(call())
        case.add(label, make)


def in_numba(f: Callable[..., float]) -> Callable[..., float]:
    """The function by Numba; the plain functions of its module that it names are compiled too."""
    import numba

    def plain(g: Any) -> bool:
        return isinstance(g, types.FunctionType) and g.__module__ == f.__module__ and g is not f
    known = {name: g for name, g in f.__globals__.items() if name in f.__code__.co_names and plain(g)}
    helpers = {name: in_numba(g) for name, g in known.items()}
    copy = types.FunctionType(f.__code__, {**f.__globals__, **helpers}, f.__name__, f.__defaults__, f.__closure__)
    found: Callable[..., float] = numba.njit(copy)
    return found


def _in_jax(p: Ordinary, gradient: bool) -> Program:
    import jax
    import jax.numpy as jnp

    if p.jax is None:
        raise ValueError(f"{p.name} has no text in jax.numpy")
    text, dynamic = p.jax, [k for k, a in enumerate(p.args) if not isinstance(a, int)]
    fixed = dict(enumerate(p.args))

    def f(*args: Any) -> Any:
        given = fixed | dict(zip(dynamic, args))
        return text(jnp, *[given[k] for k in range(len(given))])
    wrt = tuple(dynamic.index(k) for k in p.grad)
    run = jax.jit(jax.value_and_grad(f, wrt) if gradient else f)
    args = [jnp.asarray(p.args[k]) for k in dynamic]
    if not gradient:
        return lambda: jax.block_until_ready(run(*args))

    def both() -> Any:
        value, grads = jax.block_until_ready(run(*args))
        return value, list(grads)
    return both
