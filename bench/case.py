"""Cases of benchmarks: programs that compute the same result, one for each peer.

A benchmark is a module ``bench/NAME.py`` with ``TITLE`` and ``cases(bench)``, which yields ``Case``s.  A case holds a
program (a function without arguments) for each peer, made by ``case.add(label, make)``.  The first word of a label
names the peer's family (``C``, ``Numba``, ``JAX``, …), which ``--peers`` chooses.  A peer that is not installed, or
that cannot express the program, is recorded with its error line.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bench import one_core

Program = Callable[[], Any]
HERE = Path(__file__).parent
OUT = HERE.parent / "out" / "bench"
OURS, FAST, UNCHECKED = "jitad", "jitad fastmath", "jitad, boundscheck=False"
# The module that a family of peers needs, and its name on the command line.
NEEDS = {"C": "", "Python": "", "NumPy": "", "Numba": "numba", "JAX": "jax", "PyTorch": "torch",
         "Enzyme": "enzyme_ad", "CasADi": "casadi", "Dr.Jit": "drjit"}


def family(label: str) -> str:
    return label.replace(",", " ").replace(":", " ").split()[0]


@functools.cache
def warm(kin: str) -> None:
    """Compiles an empty function: start-up costs of a family do not count in the first call."""
    if kin == OURS:
        import jitad  # not above: importing it is itself a benchmark
        jitad.jit(lambda x: x * 2.0, grad=True).value_and_grad(1.0)
    elif kin == "JAX":
        import jax
        jax.block_until_ready(jax.jit(jax.value_and_grad(lambda x: x * 2.0))(1.0))
    elif kin == "Numba":
        import numba
        numba.njit(lambda x: x * 2.0)(1.0)


@dataclass
class Case:
    """Programs that compute the same result, with the same cost model.

    ``group`` and ``kind`` (``value``, ``gradient``, ``hessian``, ``call``, ``step``, ``first call``) name it; the time
    of one call is divided by ``per``, counted in ``unit``s.  ``samples`` may hold times measured elsewhere (seconds).
    ``steps``: the trip count of the loop whose states a gradient saves.  Peers in ``apart`` compute the result by
    another program (a library's factorisation, a closed form): they are shown, but do not count in means.
    """

    group: str
    kind: str
    rtol: float = 1e-9
    per: float = 1.0
    unit: str = ""
    least: float = 0.01                             # seconds per round, at least
    steps: int = 0
    peers: frozenset[str] | None = None             # families on the command line, lower case; None: all
    programs: dict[str, Program] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)       # seconds until the first result, compilation included
    cannot: dict[str, str] = field(default_factory=dict)        # the reason why a peer is left out
    samples: dict[str, list[float]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)       # other numbers, by name with unit
    apart: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"{self.group}, {self.kind}"

    def wanted(self, label: str) -> bool:
        """True if a peer takes part; records a missing one."""
        kin = family(label)
        if kin != OURS and self.peers is not None and kin.lower() not in self.peers:
            return False
        module = NEEDS.get(kin, "")
        if module and importlib.util.find_spec(module) is None:
            self.cannot[label] = f"{module} is not installed"
            return False
        return True

    def add(self, label: str, make: Callable[[], Program], apart: bool = False) -> None:
        """Adds the program that ``make`` returns; calls it once for its result and its first time."""
        if not self.wanted(label):
            return
        if apart:
            self.apart.add(label)
        warm(family(label))
        start = one_core.now()
        try:
            program = make()
            self.results[label] = program()
        except Exception as e:
            if label == OURS:
                raise
            self.cannot[label] = error_line(e)
            return
        self.first[label] = one_core.now() - start
        self.programs[label] = program

    def check(self) -> None:
        """Raises an error unless all results equal the first one, entry by entry.

        A result ``(value, None)`` has a gradient of another layout: its value is compared.
        """
        (first, expected), *others = self.results.items()
        for name, got in others:
            value_only = isinstance(got, tuple) and got[-1] is None
            for a, b in zip(leaves(expected[:-1] if value_only else expected), leaves(got), strict=True):
                np.testing.assert_allclose(b, a, rtol=self.rtol, atol=self.rtol * max(1e-30, float(np.max(np.abs(a)))),
                                           err_msg=f"{self.name}: {name} differs from {first}")
        self.results.clear()


def error_line(e: BaseException) -> str:
    """The line of an error message with the problem."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip(" -")]
    return f"{type(e).__name__}: {lines[0][:160] if lines else ''}"


def leaves(x: Any) -> list[np.ndarray]:
    """The numbers of a result, in order; other leaves are omitted."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in leaves(part)]
    if x is None:
        return []
    if hasattr(x, "detach"):
        x = x.detach()
    return [np.asarray(x, dtype=np.float64)]


@dataclass(frozen=True)
class Bench:
    """The options of a benchmark: the data folder, the peers, and quick runs."""

    data: Path | None
    peers: frozenset[str] | None
    quick: bool
    rounds: int

    def case(self, group: str, kind: str, **settings: Any) -> Case:
        return Case(group, kind, peers=self.peers, **settings)

    def file(self, name: str) -> Path:
        """A file of the shared data, or ``Missing``."""
        path = (self.data or Path("shared-data")) / name
        if not path.exists():
            raise Missing(f"needs {name}, which is not on this machine (--data DIRECTORY)")
        return path


class Missing(Exception):
    """Raised if a benchmark's data are not on this machine."""


class Module(Protocol):
    """A benchmark."""

    TITLE: str

    def cases(self, bench: Bench) -> Iterator[Case]: ...
