"""The lists of functions in ``docs/language.md`` agree with the compiler's tables; ``BLESS=1`` writes them again."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import operator
import os
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitad.frontend.arrays import library, table
from jitad.frontend.objects import containers, refusals
from jitad.frontend.operations import builtin

PAGE = Path(__file__).parent.parent.parent / "docs" / "language.md"
HEADING = "## All functions\n"
MODULES: dict[str, Any] = {"": builtins, "math.": math, "np.": np, "np.linalg.": np.linalg, "np.random.": np.random,
                           "itertools.": itertools, "operator.": operator, "functools.": functools}


@functools.cache
def public_names() -> dict[int, list[str]]:
    """The dotted names of every public object of the modules above, by identity."""
    found: dict[int, list[str]] = {}
    for prefix, module in MODULES.items():
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            found.setdefault(id(getattr(module, name, None)), []).append(prefix + name)
    for ufunc in (f for f in vars(np).values() if isinstance(f, np.ufunc)):
        for name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            found.setdefault(hash(getattr(ufunc, name)), []).append(f"np.{ufunc.__name__}.{name}")
    found[id(itertools.chain.from_iterable)] = ["itertools.chain.from_iterable"]
    return found


def names_of(fun: Any) -> list[str]:
    """Every public name of a function in the modules above."""
    names = public_names().get(id(fun)) or public_names().get(hash(fun)) or []
    return list(dict.fromkeys(names))


def supported() -> list[str]:
    known = [f for f in builtin.TABLE if f not in refusals.ALWAYS]
    return sorted({n for f in (*known, *table.TABLE, *table.MUTATING) for n in names_of(f)})


def listed(names: list[str]) -> str:
    return textwrap.fill(", ".join(f"`{n}`" for n in names) + ".", 118, break_long_words=False, break_on_hyphens=False)


def section() -> str:
    names = supported()
    groups = [
        ("Builtins", [n for n in names if "." not in n]),
        ("`math`", [n for n in names if n.startswith("math.")]),
        ("NumPy", [n for n in names if n.startswith("np.")]),
        ("Standard library", [n for n in names if n.split(".")[0] in ("functools", "itertools", "operator")]),
        ("`scipy.special`", sorted(f"scipy.special.{n}" for n in _scipy_names())),
        ("Methods and attributes of arrays", sorted({
            *table.METHODS, *table.MUTATING_METHODS, *table.ATTRIBUTES,
            *library.ARRAY_METHODS} - {"__len__", "is_integer"})),
        ("Methods of lists", sorted(containers.LIST_METHODS)), ("Methods of dicts", sorted(containers.DICT_METHODS))]
    return HEADING + "\n" + "\n\n".join(f"**{title}**: {listed(found)}" for title, found in groups if found) + "\n"


def _scipy_names() -> list[str]:
    special = pytest.importorskip("scipy.special")
    known = table._scipy()
    return [n for n in dir(special) if isinstance(getattr(special, n), np.ufunc) and getattr(special, n) in known] + [
        n for n in ("logsumexp", "softmax", "log_softmax") if getattr(special, n) in known]


def test_the_lists_are_those_of_the_compiler() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, _ = page.partition(HEADING)
    wanted = before.rstrip() + "\n\n" + section()
    if os.environ.get("BLESS"):
        PAGE.write_text(wanted, encoding="utf-8")
        pytest.fail("the page has been written anew")
    assert page == wanted
    assert {"sum", "math.sin", "np.tanh", "np.add.at", "np.linalg.norm", "itertools.chain"} <= set(supported())
