"""The targets of the suite and their results: one row for each target.

``rows(results)`` is the source of the tables in the terminal, on the page and in ``docs/performance.md``.  A mean
is geometric, over programs that both sides ran; a ratio is jitad's time over the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.case import FAST, OURS, UNCHECKED, family
from bench.measure import geometric_mean, median
from bench.ordinary import FIELDS

Results = dict[str, Any]
Case = dict[str, Any]                   # the results of one, with the name of its benchmark
Ratios = dict[str, float]               # by program

TIMED = ("value", "gradient", "jacobian", "hessian", "step", "gradient of each", "gradient of the sum", "jacobian")
# Benchmarks whose programs are operations on whole arrays in PyTorch; in the others it works number by number.
OF_ARRAYS = ("heat", "chain", "mlp", "gmm", "black_scholes", "neural_ode", "networks")


@dataclass(frozen=True)
class Target:
    """A row: the result for each program, and the targets for the mean and for the worst program.

    ``bound``: upper bound of the mean; ``each``: upper bound of the worst.  With ``least`` both are lower bounds, and
    the worst is the least.
    """

    name: str
    found: Ratios
    bound: float
    each: float | None = None
    least: bool = False
    note: str = ""

    @property
    def mean(self) -> float:
        return geometric_mean(list(self.found.values()))

    @property
    def worst(self) -> str:
        pick = min if self.least else max
        return pick(self.found, key=lambda program: self.found[program])

    @property
    def asked(self) -> str:
        sign = "≥" if self.least else "≤"
        return f"{sign} {self.bound:g}" + (f", each {sign} {self.each:g}" if self.each is not None else "")

    @property
    def reached(self) -> bool:
        def within(x: float, limit: float) -> bool:
            return x >= limit if self.least else x <= limit
        return within(self.mean, self.bound) and (self.each is None or within(self.found[self.worst], self.each))

    def beyond(self) -> Ratios:
        """The programs that miss the target for each, or, if there is none, for the mean; worst first."""
        limit = self.bound if self.each is None else self.each
        missed = {p: r for p, r in self.found.items() if (r < limit if self.least else r > limit)}
        return dict(sorted(missed.items(), key=lambda item: item[1], reverse=not self.least))

    def cells(self) -> tuple[str, ...]:
        """The cells of a table row; the headings are ``HEADS``."""
        return (self.name, self.asked, f"{self.mean:.3g}", f"{self.found[self.worst]:.3g}", self.worst,
                str(len(self.found)), "yes" if self.reached else "no")


HEADS = ("ratio of times", "target", "mean", "worst", "which", "programs", "reached")


def rows(results: Results) -> list[Target]:
    """All targets for which there are results."""
    found = [
        Target("jitad / C by hand", against(results, "C", of_suite), 1.15, 1.5),
        Target("jitad / C by hand, both with fast math", with_fast_math(results, of_suite), 1.15, 1.5),
        Target("jitad / Enzyme", against(results, "Enzyme"), 0.9),
        Target("jitad / JAX", against(results, "JAX", of_suite), 0.5, 1.0),
        Target("jitad / PyTorch, scalars and loops", against(results, "PyTorch", lambda c: not of_arrays(c)), 0.1),
        Target("jitad / PyTorch, arrays", against(results, "PyTorch", of_arrays), 0.5),
        Target("jitad / Numba, values", against(results, "Numba", lambda c: is_value(c) and of_suite(c)), 1.0),
        Target("jitad / CasADi", against(results, "CasADi"), 1.0),
        Target("jitad / Dr.Jit", against(results, "Dr.Jit"), 1.0),
        Target("gradient with value / value", gradient_over_value(results, of_suite), 2.5),
        Target("jitad / boundscheck=False", labels(results, OURS, UNCHECKED), 1.05),
        *ordinary(results),
        Target("jitad / JAX, first call", first_calls(results), 1.0, 1.0),
        Target("compile time's exponent in program size", compile_slope(results), 1.1),
        *(Target(f"PyTorch / jitad, {name}", speed_up(results, name), goal, goal, least=True)
          for name, goal in (("char-RNN", 12.8), ("char-LSTM", 4.0), ("TreeLSTM", 10.0))),
        Target("share of the machine's limit, chain", chain(results), 0.8, 0.8, least=True),
        Target("two threads' speed / one's", two_threads(results), 1.8, 1.8, least=True),
    ]
    return [target for target in found if target.found]


def ordinary(results: Results) -> list[Target]:
    """The targets for the ordinary programs: C is the best of the compilers and vector widths."""
    def values(case: Case) -> bool:
        return is_value(case) and not of_suite(case)

    def gradients(case: Case) -> bool:
        return not is_value(case) and not of_suite(case)
    found = [("jitad / C", against(results, "C", values), 0.95, 1.25),
             ("jitad / C, both with fast math", with_fast_math(results, values), 0.95, 1.25),
             ("jitad / adjoint by hand in C", against(results, "C", gradients), 1.0, 1.3),
             ("jitad / adjoint by hand in C, both with fast math", with_fast_math(results, gradients), 1.0, 1.3),
             ("gradient with value / value", gradient_over_value(results, lambda c: not of_suite(c)), 2.2, None),
             ("jitad / Numba", against(results, "Numba", values), 1.0, 1.05),
             ("jitad / JAX", against(results, "JAX", lambda c: not of_suite(c)), 0.6, 1.1),
             ("slowest / fastest formulation", formulations(results), 1.15, 1.15)]
    return [Target(f"ordinary programs: {name}", ratios, mean, each) for name, ratios, mean, each in found]


# --- sources of the figures ---------------------------------------------------------------------------

def every(results: Results) -> Iterator[dict[str, Any]]:
    """All cases, each with the name of its benchmark."""
    for name, part in results["benchmarks"].items():
        for case in part["cases"]:
            yield {"benchmark": name, "apart": (), "memory": {}, **case}


def of_arrays(case: dict[str, Any]) -> bool:
    return case["benchmark"] in OF_ARRAYS


def of_suite(case: Case) -> bool:
    """True for the programs that the compiler was developed with, false for the ordinary ones."""
    return case["benchmark"] not in FIELDS


def is_value(case: Case) -> bool:
    return bool(case["kind"] == "value")


def name_of(case: dict[str, Any]) -> str:
    return f"{case['group']}, {case['kind']}"


def best(case: dict[str, Any], kin: str, fast: bool = False) -> str | None:
    """The fastest peer of a family that runs the same program; C in strict arithmetic, as for ours, or ``fast``."""
    labels_ = [label for label in case["seconds"]
               if family(label) == kin and label not in case["apart"] and ("-ffast-math" in label) == fast]
    return min(labels_, key=lambda label: median(case["seconds"][label])) if labels_ else None


def over(case: dict[str, Any], ours: str, theirs: str) -> float:
    return median(case["seconds"][ours]) / median(case["seconds"][theirs])


def against(results: Results, kin: str, chosen: Callable[[dict[str, Any]], bool] = lambda case: True) -> Ratios:
    """Our time over the best of a family, for each case that has both."""
    return {name_of(case): over(case, OURS, theirs) for case in every(results)
            if case["kind"] in TIMED and OURS in case["seconds"] and chosen(case) and (theirs := best(case, kin))}


def with_fast_math(results: Results, chosen: Callable[[Case], bool]) -> Ratios:
    """Our time under ``fastmath`` over the best of C with -ffast-math, for each case that has both."""
    return {name_of(case): over(case, FAST, theirs) for case in every(results)
            if FAST in case["seconds"] and chosen(case) and (theirs := best(case, "C", fast=True))}


def formulations(results: Results) -> Ratios:
    """The time of the slowest formulation of a program over that of the fastest, for each case that has several."""
    found = {}
    for case in every(results):
        times = [median(t) for label, t in case["seconds"].items() if label == OURS or label.startswith(f"{OURS}: ")]
        if len(times) > 1 and not of_suite(case):
            found[name_of(case)] = max(times) / min(times)
    return found


def labels(results: Results, ours: str, theirs: str) -> Ratios:
    """The time of one label over another's."""
    return {name_of(case): over(case, ours, theirs) for case in every(results)
            if ours in case["seconds"] and theirs in case["seconds"]}


def gradient_over_value(results: Results, chosen: Callable[[Case], bool] = lambda case: True,
                        label: str = OURS) -> Ratios:
    """The time of value and gradient relative to the value, by program."""
    times = {(case["group"], case["kind"]): median(case["seconds"][label])
             for case in every(results) if label in case["seconds"] and chosen(case)}
    return {group: t / times[group, "value"] for (group, kind), t in times.items()
            if kind == "gradient" and (group, "value") in times}


def first_calls(results: Results) -> Ratios:
    """Our first call (trace, derive, compile, run) over JAX's."""
    found = {}
    for case in every(results):
        if case["kind"] in ("compile", "first call"):
            if "JAX" in case["seconds"]:
                found[name_of(case)] = over(case, OURS, "JAX")
        elif case["kind"] in TIMED and OURS in case["first"] and (theirs := best(case, "JAX")) in case["first"]:
            found[name_of(case)] = case["first"][OURS] / case["first"][theirs]
    return found


def compile_slope(results: Results) -> Ratios:
    """The exponent of program size in compile time, over the last decade."""
    sizes = {int(case["group"].split()[0]): median(case["seconds"][OURS]) for case in every(results)
             if case["benchmark"] == "compiling" and case["group"].endswith("statements")}
    last = [n for n in sizes if n >= max(sizes) / 10] if sizes else []
    if len(last) < 2:
        return {}
    x, y = np.log(last), np.log([sizes[n] for n in last])
    return {f"{min(last)} to {max(last)} statements": float(np.polyfit(x, y, 1)[0])}


def speed_up(results: Results, group: str) -> Ratios:
    """PyTorch's time over ours for a training step, cells written out and fused layers."""
    return {label: 1 / over(case, OURS, label) for case in every(results) if case["group"] == group
            and case["kind"] == "step" for label in case["seconds"] if family(label) == "PyTorch"}


def chain(results: Results) -> Ratios:
    """Our speed relative to the machine's limit: that of a copy, or of C's vector functions in the first cache."""
    cases = {case["kind"]: case["seconds"] for case in every(results) if case["benchmark"] == "chain"}
    copy = next((t for label, t in cases.get("gradient", {}).items() if label.startswith("NumPy copy")), None)
    found = {}
    for kind, seconds in cases.items():
        moved = {"value": 0.5, "gradient": 1.0}[kind]        # fraction of a copy: numbers read, or also written
        limits = [moved * median(copy)] if copy else []
        limits += [median(t) for label, t in seconds.items() if label.endswith("mathematics' limit")]
        if limits and OURS in seconds:
            found[f"chain, {kind}"] = max(limits) / median(seconds[OURS])
    return found


def two_threads(results: Results) -> Ratios:
    return {name_of(case): case["facts"]["speed-up"] for case in every(results) if case["benchmark"] == "threads"}


def busiest(results: Results) -> tuple[str, float]:
    """The program with the largest ratio of processor time to wall-clock time, on all cores."""
    shares = {f"{name_of(case)}: {label}": share for case in every(results)
              for label, share in case.get("cpu over wall", {}).items()}
    most = max(shares, key=lambda k: shares[k], default="")
    return most, shares.get(most, 0.0)
