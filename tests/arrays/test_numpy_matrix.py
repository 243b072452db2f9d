"""Every supported function of NumPy, with varied operands and every argument by position and by name.

Value, dtype, shape and the type of the exception are NumPy's.  ``numpy_table`` has the arguments for each function; a
function without a line there fails.  The tests run the front end and the reference interpreter; other tests cover the
compilation of ops.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jitad import JitadError, UnsupportedError, grad, interpret
from jitad.frontend.arrays import library, signatures
from jitad.frontend.arrays import table as numpy_api
from jitad.frontend.objects import refusals
from jitad.frontend.operations import builtin
from tests.arrays import numpy_table as table
from tests.arrays.numpy_deviations import DEVIATIONS, REFUSALS

EITHER_SIGN = (type(np.linalg.eigh(np.eye(1))), type(np.linalg.svd(np.eye(1))))
"""Results with vectors of which the sign is arbitrary."""
ENTRIES, METHODS = table.entries(), table.methods()


# --- what there is ----------------------------------------------------------------------------------

@functools.cache
def names() -> dict[str, Any]:
    """Every public function of NumPy that the compiler supports, by its dotted name after ``np.``."""
    known = {*numpy_api.TABLE, *numpy_api.MUTATING, *(f for f in builtin.TABLE if f not in refusals.ALWAYS)}
    found: dict[str, Any] = {}
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft), ("random.", np.random)):
        for name in dir(module):
            fun = getattr(module, name, None)
            if callable(fun) and not name.startswith("_") and fun.__hash__ and fun in known:
                found[prefix + name] = fun
    for ufunc in {f for f in vars(np).values() if isinstance(f, np.ufunc)}:
        for name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            if getattr(ufunc, name) in known:
                found[f"{ufunc.__name__}.{name}"] = getattr(ufunc, name)
    once: dict[Any, str] = {}                        # the first of several names of a function, or the one with a line
    for name in sorted(found, key=lambda n: (n not in ENTRIES, len(n), n)):
        once.setdefault(found[name], name)
    return {name: found[name] for name in once.values()}


def plan(name: str) -> tuple[str, str]:
    if name in ENTRIES:
        return ENTRIES[name]
    fun = names()[name]
    assert isinstance(fun, np.ufunc), f"np.{name} has no line in numpy_table.LINES"
    return ("array", "a") if fun.nin == 1 else ("arrays", "a, b")


def test_every_function_has_a_line() -> None:
    for name in names():
        plan(name)
    missed = {f for f in (*numpy_api.TABLE, *numpy_api.MUTATING, *library.NUMPY) if signatures.is_numpys(f)}
    assert not missed - set(names().values())
    assert not [n for n in ENTRIES if n not in names() and hasattr(np, n.split(".")[0])]
    assert set(METHODS) == {*numpy_api.METHODS, *numpy_api.MUTATING_METHODS, *library.ARRAY_METHODS} - {
        "__len__", "is_integer"}
    assert {n.split(":")[0] for n in (*REFUSALS, *DEVIATIONS)} <= {*names(), *(f"a.{m}" for m in METHODS), "*", "ufunc"}


# --- the calls --------------------------------------------------------------------------------------

def parts(text: str) -> list[str]:
    """The arguments, split at commas outside brackets."""
    out, depth, last = [], 0, ""
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            out.append(last.strip())
            last = ""
        else:
            last += c
    return [*out, last.strip()] if last.strip() else out


ALL, SHAPES, FEW, FIRST = "all", "shapes", "few", "first"            # operands with which a call is made


def calls(call: str, given: list[str], signature: inspect.Signature | None, own: dict[str, Any],
          ) -> Iterator[tuple[str, str]]:
    """Calls: as given, by name, with each further argument by name and by position, and wrong ones."""
    yield f"{call}({', '.join(given)})", ALL
    yield f"{call}({', '.join([*given, 'no_such_argument=1'])})", FIRST
    if given:
        yield f"{call}({', '.join(given[:-1])})", FIRST
    if signature is None:
        return
    ps = list(signature.parameters.values())
    by_place = [p for p in ps if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not any(p.kind is p.VAR_POSITIONAL for p in ps):
        yield f"{call}({', '.join([*given, *['None'] * (len(by_place) + 1 - len(given))])})", FIRST
        yield f"{call}({', '.join(f'{p.name}={x}' for p, x in zip(by_place, given))})", FEW
        rest = by_place[len(given):]
        yield f"{call}({', '.join([*given, *(f'{p.name}={default(p)}' for p in rest if default(p))])})", FEW
        for k, p in enumerate(rest):
            before = [default(q) for q in rest[:k]]
            if p.name in signatures.OUTS or not all(before):
                continue
            for value in own.get(p.name, table.OPTIONS.get(p.name, ()))[:2]:
                yield f"{call}({', '.join([*given, *before, value])})", FEW
    for p in ps:
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) and p not in by_place[:len(given)]:
            if p.name not in signatures.OUTS:
                assert p.name in {**table.OPTIONS, **own}, f"{call}: no values for the argument {p.name}"
                for value in own.get(p.name, table.OPTIONS.get(p.name, ())):
                    much = FIRST if p.name in ("order", "casting", "device") else FEW if p.name != "axis" else SHAPES
                    yield f"{call}({', '.join([*given, f'{p.name}={value}'])})", much
            if p.name in ("axis", "keepdims") and "keepdims" in signature.parameters and "axis" in signature.parameters:
                yield f"{call}({', '.join([*given, 'axis=-1, keepdims=True'])})", SHAPES


def default(p: inspect.Parameter) -> str:
    """The default as source text, or an empty string if it has none."""
    if p.default is inspect.Parameter.empty or p.default is signatures.NO:
        return ""
    return "float" if p.default is float else "int" if p.default is int else repr(p.default)


def some(operands: list[table.Operands], much: str) -> list[table.Operands]:
    """The operands of a call: of f64 all shapes, the first of each dtype, or fewer of them."""
    other = [o for o in operands[1:] if any(np.asarray(x).dtype != np.asarray(y).dtype
                                            for x, y in zip(o.values(), operands[0].values()))]
    shapes = [o for o in operands if not any(o is x for x in other)]
    kinds = [o for o in other if all(np.shape(x) == np.shape(y) for x, y in zip(o.values(), operands[0].values()))]
    return {ALL: operands, SHAPES: [*shapes, *kinds[-1:]], FEW: [*shapes[:2], *kinds[1:2], *kinds[-1:]],
            FIRST: operands[:1]}[much]


def all_calls(name: str) -> tuple[dict[str, str], list[table.Operands]]:
    if name.startswith("a."):
        group, text = METHODS[name[2:]]
        signature = signatures._read(signatures.METHODS[name[2:]])
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        letter = next(iter(table.GROUPS[group][0]))
        found = calls(f"{letter}.{name[2:]}", parts(text), signature, table.OWN.get(name[2:], {}))
    else:
        group, text = plan(name)
        known = signatures.is_numpys(names()[name])
        signature_ = signatures.signature_of(names()[name]) if known else None
        found = calls(f"np.{name}", parts(text), signature_, table.OWN.get(name, {}))
    chosen: dict[str, str] = {}
    for call, much in found:
        chosen.setdefault(call, much)
    return chosen, table.GROUPS[group]


def made(texts: list[str], letters: list[str], in_place: bool, name: str) -> list[Any]:
    """Functions with these expressions, whose source can be read; a changed argument is copied and returned."""
    first = letters[0] if letters else ""
    body = f"    {first} = {first}.copy()\n    {{}}\n    return {first}\n" if in_place else "    return {}\n"
    source = "".join(f"def call_{i}({', '.join(letters)}):\n{body.format(x)}" for i, x in enumerate(texts))
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {"np": np}
    exec(compile(source, file, "exec"), scope)
    return [scope[f"call_{i}"] for i in range(len(texts))]


# --- outcomes ---------------------------------------------------------------------------------------

def outcome(call: Any, *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*args)
    except Exception as e:
        return e


def difference(expected: Any, got: Any, single: bool = False) -> str:
    """A description of the difference between two outcomes, or an empty string."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        if not isinstance(got, Exception):
            return f"no {type(expected).__name__}: {expected}"
        if not isinstance(expected, Exception):
            return f"{type(got).__name__}: {str(got).splitlines()[0]}"
        if isinstance(got, UnsupportedError):                # refused loudly, before it can fail
            return ""
        alike = isinstance(got, type(expected)) or isinstance(expected, type(got)) and not isinstance(got, JitadError)
        return "" if alike and type(got) is not Exception else f"{got!r} for {expected!r}"
    if isinstance(expected, EITHER_SIGN) and type(got) is type(expected):
        expected, got = tuple(map(np.abs, expected)), tuple(map(np.abs, got))
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, type(expected)) and not isinstance(got, tuple) or len(expected) != len(got):
            return f"{type(got).__name__} for {type(expected).__name__}"
        return next(filter(None, (difference(x, y, single) for x, y in zip(expected, got))), "")
    if not isinstance(expected, (np.ndarray, np.generic, int, float)):
        return "" if got == expected or repr(got) == repr(expected) else f"{got!r} for {expected!r}"
    x, y = np.asarray(expected), np.asarray(got)
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{y.dtype}{y.shape} for {x.dtype}{x.shape}"
    near = 2e-6 if single or x.dtype == np.float32 else 1e-12
    if x.dtype.kind == "f" and not np.allclose(y, x, rtol=near, atol=near, equal_nan=True):
        return f"{y} for {x}"
    return "" if x.dtype.kind == "f" or np.array_equal(x, y) else f"{y} for {x}"


def changes(name: str) -> bool:
    """True if a call changes its first operand and returns nothing."""
    return name in table.CHANGES


def differences(name: str) -> list[str]:
    texts, operands = all_calls(name)
    letters = list(operands[0])
    functions = made(list(texts), letters, changes(name), name)
    if changes(name):
        operands = [o for o in operands if isinstance(o[letters[0]], np.ndarray)]
    found = []
    for (text, much), fun in zip(texts.items(), functions):
        for o in some(operands, much):
            args = [o[x] for x in letters]
            expected, got = outcome(fun, *args), outcome(functools.partial(interpret, fun), *args)
            what = difference(expected, got, any(np.asarray(x).dtype == np.float32 for x in args))
            of = ", ".join(f"{x}: {np.asarray(v).dtype}{np.shape(v)}" for x, v in o.items())
            if what and not excused(name, got, line := f"{text} of {of}: {what}"):
                found.append(line)
    return found


def is_ufunc(name: str) -> bool:
    """True for the name of a ufunc, or of a method of a ufunc."""
    fun = names().get(name)
    return isinstance(fun, np.ufunc) or isinstance(getattr(fun, "__self__", None), np.ufunc)


def excused(name: str, got: Any, line: str) -> bool:
    """True if a difference is in the table of deviations."""
    if isinstance(got, UnsupportedError):
        keys = ("*", name, "ufunc") if is_ufunc(name) else ("*", name)
        return any(r in str(got) for key in keys for r in REFUSALS.get(key, ()))
    return any(part in line for key in ("*", name) for part, _ in DEVIATIONS.get(key, ()))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted([*names(), *(f"a.{m}" for m in METHODS)]))
def test_as_numpy(name: str) -> None:
    found = differences(name)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:40])


# --- out= -------------------------------------------------------------------------------------------

def with_out() -> list[str]:
    """The functions and methods that have a parameter ``out``."""
    own = {n: signatures.signature_of(f) for n, f in names().items() if signatures.is_numpys(f)}
    own |= {f"a.{n}": signatures._read(signatures.METHODS[n]) for n in METHODS if not n.startswith("conj")}
    return sorted(n for n, s in own.items() if s is not None and "out" in s.parameters and "out1" not in s.parameters)


def out_differences(name: str) -> list[str]:
    texts, operands = all_calls(name)
    text, letters, o = next(iter(texts))[:-1], list(operands[0]), operands[0]
    call = signatures._read(signatures.METHODS[name[2:]]) if name.startswith("a.") else signatures.signature_of(
        names()[name])
    text += ", axis=0" if call is not None and "axis" in call.parameters and "axes" not in call.parameters else ""
    like = outcome(lambda: np.asarray(eval(f"{text})".replace("(, ", "("), {"np": np, **o})))
    if isinstance(like, Exception) or not like.shape:
        o = {k: np.abs(v).astype(int) for k, v in o.items()}             # gcd and its like
        like = outcome(lambda: np.asarray(eval(f"{text})".replace("(, ", "("), {"np": np, **o})))
    if isinstance(like, Exception) or not like.shape:
        return []
    shapes = (like.shape, (2, *like.shape), (*like.shape[:-1], like.shape[-1] + 1), like.shape[1:] or (1,))
    outs = [(s, like.dtype) for s in shapes] + [(like.shape, d) for d in ("f8", "f4", "i8", "i4", "?")]
    calls = [f"{text}, out=np.zeros({s}, '{np.dtype(d).str}'))" for s, d in outs] + [f"{text}, out=[1.0])"]
    found = []
    calls = [c.replace("(, ", "(") for c in calls]
    for line, fun in zip(calls, made(calls, letters, False, name)):
        args = list(o.values())
        expected, got = outcome(fun, *args), outcome(functools.partial(interpret, fun), *args)
        what = difference(expected, got, True)
        if what and not excused(name, got, line := f"{line}: {what}"):
            found.append(line)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", with_out())
def test_out_as_numpy(name: str) -> None:
    found = out_differences(name)
    assert not found, "\n".join(found)


# --- derivatives ------------------------------------------------------------------------------------

def total(r: Any) -> Any:
    """The sum of all numbers in the result of a function, or of their squares if they have either sign."""
    if isinstance(r, EITHER_SIGN):
        return sum([total(x * x) for x in r])
    if isinstance(r, (tuple, list)):
        return sum([total(x) for x in r])
    flat = np.ravel(r) * 1.0
    return np.sum(flat * (1.0 + 0.25 * np.cos(np.arange(flat.size))))


def slope(fun: Any, args: list[Any], k: int, step: Any, h: float) -> float:
    def moved(by: float) -> Any:
        return fun(*[x + by * step if i == k else x for i, x in enumerate(args)])
    return float((moved(h) - moved(-h)) / (2 * h))


def summed(fun: Any) -> Any:
    def value(*args: Any) -> Any:
        return total(fun(*args))
    return value


def is_finite(value: Any) -> bool:
    return not isinstance(value, Exception) and bool(np.isfinite(value))


def gradient_differences(name: str) -> list[str]:
    texts, operands = all_calls(name)
    letters = list(operands[0])
    calls = [text for text in texts if text.endswith("axis=-1)") or text is next(iter(texts))]
    found = []
    bodies = [text if changes(name) else f"total({text})" for text in calls]
    for text, fun in zip(calls, made(bodies, letters, changes(name), name)):
        fun.__globals__["total"] = total
        fun = summed(fun) if changes(name) else fun
        tried = [[x + by if np.asarray(x).dtype == float else x for x in o.values()]
                 for o in operands for by in (0.0, 1.5) if any(np.asarray(x).dtype == float for x in o.values())]
        args = next((x for x in tried if is_finite(outcome(fun, *x)) and np.size(x[0])), None)
        if args is None:
            continue
        for k, x in enumerate(args):
            if np.asarray(x).dtype != float or np.size(x) == 0:
                continue
            step = np.cos(3.0 * np.arange(np.size(x))).reshape(np.shape(x))
            near, far = slope(fun, args, k, step, 1e-6), slope(fun, args, k, step, 4e-6)
            if not np.isclose(near, far, rtol=1e-4, atol=1e-4):              # a kink, or a jump
                continue
            got = outcome(functools.partial(interpret, grad(fun, k)), *args)
            if isinstance(got, Exception):
                if not isinstance(got, UnsupportedError):
                    found.append(f"{text}: {got!r}")
            elif not np.isclose(np.sum(got * step), near, rtol=1e-4, atol=1e-5):
                found.append(f"{text}, argument {k}: {np.sum(got * step)} for {near}")
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", sorted([*names(), *(f"a.{m}" for m in METHODS)]))
def test_derivatives(name: str) -> None:
    found = gradient_differences(name)
    assert not found, "\n".join(found)


# --- the table itself -------------------------------------------------------------------------------

def rules() -> list[tuple[str, inspect.Signature, list[inspect.Parameter]]]:
    """Every rule with NumPy's signature of its function, and the rule's own parameters."""
    out = []
    for fun, rule in {**numpy_api.TABLE, **numpy_api.MUTATING}.items():
        if signatures.is_numpys(fun) and (theirs := signatures.signature_of(fun)) is not None:
            out.append((str(fun), theirs, list(inspect.signature(rule).parameters.values())[1:]))
    for fun, rule in library.NUMPY.items():
        if (theirs := signatures.signature_of(fun)) is not None:
            out.append((str(fun), theirs, list(inspect.signature(rule).parameters.values())))
    for name, rule in {**numpy_api.METHODS, **numpy_api.MUTATING_METHODS, **library.ARRAY_METHODS}.items():
        own = list(inspect.signature(rule).parameters.values())
        theirs = signatures._read(signatures.METHODS[name])
        out.append((f"a.{name}", theirs, own if name in library.ARRAY_METHODS else own[1:]))
    return out


def test_rules_have_the_names_and_defaults_of_numpy() -> None:
    for name, theirs, own in rules():
        by_place = [p.name for p in theirs.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        for i, p in enumerate(own):
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or i < max(len(by_place), 1) or p.name == "correction":
                continue
            assert p.name in theirs.parameters, f"{name} has no parameter {p.name}"
            default = theirs.parameters[p.name].default
            assert default is signatures.NO or repr(default) == repr(p.default), f"the default of {p.name} of {name}"


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(numpy_api.TABLE, np.sinh, numpy_api.TABLE[np.tan])
    assert differences("sinh") and gradient_differences("sinh")
    monkeypatch.setitem(numpy_api.TABLE, np.sum, numpy_api.TABLE[np.mean])
    assert out_differences("sum")
