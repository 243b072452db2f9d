"""Names of Numba, JAX and PyTorch and their equivalents here: hints for users of those libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

_TYPES = "types come from the arguments of a call: leave it out, or convert with `np.float32(x)`, `a.astype(…)`"
_NEVER = "leave it out: nothing falls back to the interpreter"
_OWN = "leave it out: arguments are never overwritten, and memory of intermediate arrays is used again"
_HERE = "leave it out: code runs on the processor, `target=\"cpu\"`"
_CALLED = "`jit(f)(*args)`: it is compiled when it is first called"

OPTIONS: dict[str, str] = {
    "nopython": _NEVER, "forceobj": _NEVER, "looplift": _NEVER, "fullgraph": _NEVER,
    "nogil": "leave it out: the lock is let go wherever a call takes long",
    "error_model": "leave it out: division by zero gives inf or nan, as in NumPy",
    "inline": "leave it out: small functions are put into their callers",
    "locals": _TYPES, "signature_or_function": _TYPES, "input_signature": _TYPES, "signature": _TYPES,
    "debug": "leave it out: indices are tested (`boundscheck=True`); `JITAD_DEBUG=1` verifies each pass",
    "pipeline_class": "leave it out", "no_cpython_wrapper": "leave it out", "no_cfunc_wrapper": "leave it out",
    "static_argnums": "`static=0`, `static=(0, 1)`: positions, names, or both", "static_argnames": "`static=\"n\"`",
    "static_argnum": "`static=0`", "static_argname": "`static=\"n\"`",
    "donate_argnums": _OWN, "donate_argnames": _OWN, "keep_unused": "leave it out", "backend": _HERE, "device": _HERE,
    "in_shardings": _HERE, "out_shardings": _HERE, "abstracted_axes": "leave it out: sizes are not compiled in",
    "dynamic": "leave it out: sizes are not compiled in, but with `static_shapes=True`",
    "compiler_options": "leave it out", "mode": "leave it out", "jit_compile": "leave it out",
    "autograph": "leave it out",
    "argnums": "`jit(f, grad=0)`, or `jitad.grad(f, argnums=0)`", "has_aux": "`jitad.grad(f, has_aux=True)`",
    "argnames": "`argnums` takes names too",
    "axis_name": "leave it out: sum over the axis of the result",
    "spmd_axis_name": "leave it out: there is one processor",
    "holomorphic": "leave it out: numbers are real", "allow_int": "leave it out: the gradient of an integer is None",
    "reduce_axes": "leave it out: sum over the axis of the result",
    "policy": "leave it out: what is cheaper to compute than to keep is computed again; or `jit(checkpoint=…)`",
    "prevent_cse": "leave it out", "concrete": "leave it out", "nondiff_argnames": "`nondiff_argnums=(0,)`: positions",
    "symbolic_zeros": "leave it out: `None` stands for zero",
}

_LOOPS = "Python's own `for`, `while` and `if`, which are compiled"
_TREES = "tuples, lists, dicts and dataclasses are taken apart as they are: a loop or a comprehension over them"
_NUMPY = "`import numpy as np`: NumPy's own functions are compiled"
_ELEMENTS = "`jit` of the function: operators and NumPy's functions take arrays; or `jitad.vmap(f)`"
_THREADS = "`@jit(parallel=True)` and `range`: iterations that are independent run on several threads"
_MAPPED = "`jit(jitad.vmap(f), parallel=True)`"
_DRAWS = "`rng = jitad.random.default_rng(seed)`, `rng.normal(size=n)`"

NAMES: dict[str, str] = {
    "set_flush_denormal": "`jitad.jit(f, flush_subnormals=True)`",
    "njit": "`jitad.jit`", "autojit": "`jitad.jit`", "pjit": "`jitad.jit`", "compile": "`jitad.jit`",
    "prange": _THREADS, "pmap": _MAPPED, "shard_map": _MAPPED,
    "xmap": "`jitad.vmap`", "vectorize": _ELEMENTS, "guvectorize": _ELEMENTS,
    "stencil": "a loop, or slices of the array",
    "lax": _LOOPS, "scan": _LOOPS, "fori_loop": _LOOPS, "while_loop": _LOOPS, "cond": _LOOPS, "switch": _LOOPS,
    "numpy": _NUMPY, "np": _NUMPY, "jnp": _NUMPY, "scipy": "`scipy.special`: its functions are compiled",
    "nn": "`jitad.relu`, `np.tanh`, `scipy.special.expit`, `scipy.special.softmax`",
    "tree": _TREES, "tree_util": _TREES, "tree_map": _TREES, "typed": _TREES, "typeof": "`f.signatures`",
    "types": _TYPES, "float64": "`np.float64`", "float32": "`np.float32`", "int64": "`np.int64`", "int32": "`np.int32`",
    "boolean": "`bool`", "remat": "`jitad.checkpoint`", "ad_checkpoint": "`jitad.checkpoint`",
    "jacobian": "`jitad.jacrev`, or `jitad.jacfwd`", "custom_gradient": "`jitad.custom_vjp`", "Array": "`np.ndarray`",
    "custom_derivatives": "`jitad.custom_vjp`, `jitad.custom_jvp`", "linear_transpose": "`jitad.vjp`",
    "closure_convert": "pass what the function captures as an argument",
    "make_jaxpr": "`jit(f).inspect(\"ir\", *args)`", "eval_shape": "`jit(f).inspect(\"ir\", jitad.spec(…))`",
    "ShapeDtypeStruct": "`jitad.spec(\"f64[:, :]\")`", "block_until_ready": "nothing: a call returns when it is done",
    "device_put": "nothing: arrays are NumPy's", "device_get": "nothing: arrays are NumPy's",
    "devices": "nothing: code runs on the processor", "local_device_count": "nothing: code runs on the processor",
    "disable_jit": "`JITAD_DISABLE_JIT=1`, or `f.py_func`", "config": "`JITAD_…` in the environment",
    "debug": "`jitad.interpret(f, *args)`, or `f.py_func`", "experimental": "the functions of `jitad`",
    "jitclass": "a plain class or a dataclass", "cfunc": "`jitad.aot.export`", "objmode": "call it outside",
    "literal_unroll": "`jitad.unroll`", "literally": "`jit(static=…)`", "gdb": "`jitad.interpret(f, *args)`",
    "cuda": "`jit(target=\"cuda\")`, and `jitad.gpu` for arrays on a device", "PRNGKey": _DRAWS, "key": _DRAWS,
    "fold_in": _DRAWS,
    "split": "`jitad.random.default_rng(seed)` for each seed", "normal": _DRAWS, "uniform": _DRAWS, "randint": _DRAWS,
    "bernoulli": _DRAWS, "categorical": _DRAWS, "permutation": _DRAWS, "shuffle": _DRAWS, "choice": _DRAWS,
}
_OF_RANDOM = frozenset(name for name, hint in NAMES.items() if hint == _DRAWS or name == "split")

METHODS: dict[str, str] = {
    "inspect_llvm": "`f.inspect(\"llvm\")`", "inspect_asm": "`f.inspect(\"asm\")`",
    "inspect_types": "`f.inspect(\"ir\")`",
    "parallel_diagnostics": "`f.inspect(\"parallel\")`", "clear_cache": "`f.recompile()`", "lower": _CALLED,
    "trace": "`f.inspect(\"ir\", *args)`", "eval_shape": "`f.inspect(\"ir\", jitad.spec(…))`", "compile": _CALLED,
    "nopython_signatures": "`f.signatures`", "disable_compile": "leave it out",
    "backward": "`jitad.grad(f)`", "forward": "`f` itself", "__wrapped__": "`f.py_func`",
}

FOREIGN = {"numba": "Numba", "jax": "JAX", "jaxlib": "JAX", "torch": "PyTorch", "tensorflow": "TensorFlow",
           "autograd": "Autograd", "cupy": "CuPy"}
_SPECIAL = {"fori_loop": _LOOPS, "while_loop": _LOOPS, "cond": _LOOPS, "scan": _LOOPS, "switch": _LOOPS,
            "associative_scan": _LOOPS, "prange": _THREADS, "relu": "`jitad.relu`", "sigmoid": "`scipy.special.expit`",
            "softmax": "`scipy.special.softmax`", "log_softmax": "`scipy.special.log_softmax`",
            "logsumexp": "`scipy.special.logsumexp`", "pndindex": _THREADS, "stop_gradient": "`jitad.stop_gradient`"}


# --- names of jitad -------------------------------------------------------------------------------

def unknown_option(function: str, name: str) -> TypeError:
    """The error for a keyword argument that a function does not take."""
    hint = OPTIONS.get(name)
    said = f"{function}() got an unexpected keyword argument {name!r}"
    return TypeError(f"{said}; instead: {hint}" if hint else said)


def unknown_name(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have."""
    hint = NAMES.get(name) if module == "jitad" or name in _OF_RANDOM else None
    said = f"module {module!r} has no attribute {name!r}"
    return AttributeError(f"{said}; instead: {hint}" if hint else said, name=name)


def unknown_method(function: str, name: str) -> AttributeError:
    """The error for an attribute that a jitted function does not have."""
    hint = METHODS.get(name)
    said = f"{function} has no attribute {name!r}"
    return AttributeError(f"{said}; instead: {hint}" if hint else said, name=name)


# --- functions of other libraries, in traced code -------------------------------------------------

def library(fun: Any) -> str | None:
    """The name of the library that ``fun`` belongs to, if that library compiles or traces functions; else None."""
    if isinstance(fun, type) and issubclass(fun, BaseException):
        return None
    for module in (getattr(fun, "__module__", None), type(fun).__module__):
        found = FOREIGN.get(str(module).split(".")[0])
        if found is not None:
            return found
    return None


def refusal(fun: Any, name: str) -> tuple[str, str]:
    """The reason for refusing a function of another such library, and a hint."""
    own = str(getattr(fun, "__name__", type(fun).__name__))
    if FOREIGN.get(str(getattr(fun, "__module__", None)).split(".")[0]) is None:      # a user's function
        return (f"`{own}` is a function that {library(fun)} compiles", "the Python function, `f.py_func` or "
                "`f.__wrapped__`: `jit` compiles what it calls")
    if own in _SPECIAL:
        hint = _SPECIAL[own]
    elif "random" in fun.__module__:
        hint = _DRAWS
    elif callable(getattr(np, own, None)):
        hint = f"`np.{own}`"
    else:
        hint = NAMES.get(own) or ("`jitad." + own + "`" if own in _ALIKE else "NumPy's functions, and Python")
    return f"`{name}` of {library(fun)} in compiled code", hint


_ALIKE = frozenset(("grad", "value_and_grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "jit", "checkpoint",
                    "custom_vjp", "custom_jvp", "linearize", "hvp"))
