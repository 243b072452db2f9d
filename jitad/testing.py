"""Checks of derivatives against finite differences.

One random direction is enough to find a wrong derivative: forward mode must agree with the central difference in that
direction, and reverse mode must agree with it under a random cotangent.  If they do not, the entries are compared one
by one and the worst is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .api import jit, register_transforms
from .errors import DifferentiationError
from .frontend.operations.builtin import location
from .frontend.transforms.transforms import jvp, vjp
from .pytree import Structure, flatten, unflatten

Leaves = list[Any]

register_transforms()                        # compiles ``jvp`` and ``vjp`` outside traced code


def check_grads(f: Callable[..., Any], args: Sequence[Any], order: int = 2, modes: Sequence[str] = ("fwd", "rev"), *,
                eps: float | None = None, rtol: float | None = None, atol: float | None = None,
                seed: int = 0) -> None:
    """Compares the derivatives of ``f`` at ``args``, up to ``order``, with finite differences.

    ``modes`` are ``"fwd"``, ``"rev"`` or both; higher orders combine them in every way.  Raises ``AssertionError``,
    which names the worst entry.  ``eps`` is the step of the central difference; it and the tolerances default by dtype.
    """
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"check_grads(f, args): args is a tuple of the arguments, such as ({args!r},)")
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes:
        raise ValueError(f"modes are 'fwd' and 'rev', not {sorted(unknown)}")
    leaves, structure = flatten(tuple(args))
    if not any(map(is_float, leaves)):
        raise DifferentiationError(f"check_grads is with respect to {args!r}, which holds no float", location(f),
                                   "pass a float: 3.0, x.astype(float)")
    single = any(np.asarray(x).dtype == np.float32 for x in leaves if is_float(x))
    step = (4e-3 if single else 1e-5) if eps is None else eps
    relative = (5e-3 if single else 1e-5) if rtol is None else rtol
    absolute = (2e-3 if single else 1e-6) if atol is None else atol
    checker = _Checker(tuple(modes), step, relative, absolute, np.random.default_rng(seed))
    checker.check(f, jit(f), leaves, structure, order, getattr(f, "__name__", "f"))


def is_float(x: Any) -> bool:
    return not isinstance(x, (bool, int, str)) and x is not None and np.asarray(x).dtype.kind == "f"


def _with_tags(structure: Structure, tangents: Leaves, leaves: Leaves) -> Leaves:
    """The tangents, with the leaves that they share with the value: union tags and references."""
    return [x if tag else dx for x, dx, tag in zip(leaves, tangents, structure.tags())]


class _Checker:
    def __init__(self, modes: tuple[str, ...], eps: float, rtol: float, atol: float, rng: np.random.Generator) -> None:
        self.modes, self.eps, self.rtol, self.atol, self.rng = modes, eps, rtol, atol, rng

    def check(self, f: Callable[..., Any], run: Any, leaves: Leaves, structure: Structure, order: int,
              what: str) -> None:
        """Check the derivatives of ``f``; ``run`` is ``f``, compiled."""
        direction = self._random(leaves)
        difference, out, out_structure = self._difference(run, leaves, structure, direction)
        cotangent = [1.0] if out_structure.is_leaf and np.ndim(difference[0]) == 0 else self._random(difference)
        tangents = unflatten(structure, _with_tags(structure, direction, leaves))
        seed = unflatten(out_structure, _with_tags(out_structure, cotangent, out))

        def forward(*primals: Any) -> Any:
            return jvp(f, primals, tangents)[1]

        def reverse(*primals: Any) -> Any:
            return vjp(f, *primals)[1](seed)

        forwards, backwards = jit(forward), jit(reverse)
        if "fwd" in self.modes:
            self._check_forward(forwards, leaves, structure, difference, f"jvp of {what}")
        if "rev" in self.modes:
            self._check_reverse(backwards, run, leaves, structure, direction, (difference, cotangent), f"vjp of {what}")
        if order > 1:
            for mode, g, compiled in (("fwd", forward, forwards), ("rev", reverse, backwards)):
                if mode in self.modes:
                    name = f"{'jvp' if mode == 'fwd' else 'vjp'} of {what}"
                    self.check(g, compiled, leaves, structure, order - 1, name)

    # --- finite differences -------------------------------------------------------------------------

    def _random(self, leaves: Leaves) -> Leaves:
        """A random number for each float, None for other leaves."""
        out: Leaves = []
        for x in leaves:
            if not is_float(x):
                out.append(None)
                continue
            noise = self.rng.standard_normal(np.shape(x))
            out.append(float(noise) if isinstance(x, float) and not isinstance(x, np.generic)
                       else np.asarray(noise, np.asarray(x).dtype)[()])
        return out

    def _difference(self, run: Any, leaves: Leaves, structure: Structure,
                    direction: Leaves) -> tuple[Leaves, Leaves, Structure]:
        """The central difference of the result in a direction, its leaves at the upper point, and its structure."""
        up, out_structure = flatten(self._at(run, leaves, structure, direction, self.eps))
        down, _ = flatten(self._at(run, leaves, structure, direction, -self.eps))
        difference = [(np.asarray(a) - b) / (2 * self.eps) if is_float(a) else None for a, b in zip(up, down)]
        return difference, up, out_structure

    @staticmethod
    def _at(run: Any, leaves: Leaves, structure: Structure, direction: Leaves, by: float) -> Any:
        moved = [x if d is None else _moved(x, d, by) for x, d in zip(leaves, direction)]
        return run(*unflatten(structure, moved))

    # --- comparisons --------------------------------------------------------------------------------

    def _check_forward(self, forward: Any, leaves: Leaves, structure: Structure, expected: Leaves, what: str) -> None:
        got, _ = flatten(forward(*unflatten(structure, leaves)))
        wanted = [x for x in expected if x is not None]
        self._compare([x for x in got if is_float(x)], wanted, what, [f"result {i}" for i in range(len(wanted))])

    def _check_reverse(self, reverse: Any, run: Any, leaves: Leaves, structure: Structure, direction: Leaves,
                       outer: tuple[Leaves, Leaves], what: str) -> None:
        gradient, _ = flatten(reverse(*unflatten(structure, leaves)))
        gradient, moved = [g for g in gradient if is_float(g)], [d for d in direction if d is not None]
        got = sum(float(np.sum(np.asarray(g, float) * d)) for g, d in zip(gradient, moved, strict=True))
        wanted = sum(float(np.sum(np.asarray(x, float) * c)) for x, c in zip(*outer) if x is not None)
        if self._close(got, wanted):
            return
        self._compare_entries(run, leaves, structure, gradient, outer[1], what)
        raise AssertionError(f"{what}: {got} in a random direction, finite differences give {wanted}")

    def _compare_entries(self, run: Any, leaves: Leaves, structure: Structure, gradient: Leaves, cotangent: Leaves,
                         what: str) -> None:
        """Compares each partial derivative separately, to name the worst."""
        names = [p for p, x in zip(structure.paths("args"), leaves) if is_float(x)]
        places = [i for i, x in enumerate(leaves) if is_float(x)]
        expected = []
        for i in places:
            entry = np.zeros(np.shape(leaves[i]))
            for index in np.ndindex(entry.shape):
                basis: Leaves = [None] * len(leaves)
                basis[i] = np.zeros(entry.shape)
                basis[i][index] = 1.0
                difference, _, _ = self._difference(run, leaves, structure, basis)
                entry[index] = sum(float(np.sum(d * c)) for d, c in zip(difference, cotangent) if d is not None)
            expected.append(entry)
        self._compare(gradient, expected, what, names)

    def _close(self, got: Any, wanted: Any) -> bool:
        return bool(np.all(self._excess(got, wanted) <= 0))

    def _excess(self, got: Any, wanted: Any) -> Any:
        """The amount by which each entry exceeds its tolerance; infinite if only one side is NaN."""
        got, wanted = np.asarray(got, float), np.asarray(wanted, float)
        with np.errstate(invalid="ignore"):
            far = np.abs(got - wanted) - (self.atol + self.rtol * np.abs(wanted))
        return np.where(np.isnan(far), np.where(np.isnan(got) & np.isnan(wanted) | (got == wanted), -1.0, np.inf), far)

    def _compare(self, got: Leaves, wanted: Leaves, what: str, names: Sequence[str]) -> None:
        worst: tuple[float, str] | None = None
        for name, g, w in zip(names, got, wanted, strict=True):
            if np.shape(g) != np.shape(w):
                raise AssertionError(f"{what}: {name} has shape {np.shape(g)}, its value {np.shape(w)}")
            excess = np.asarray(self._excess(g, w))
            if excess.size and excess.max() > 0 and (worst is None or excess.max() > worst[0]):
                at = np.unravel_index(int(excess.argmax()), excess.shape)
                index = f"[{', '.join(map(str, at))}]" if at else ""
                found, difference = np.asarray(g)[at], np.asarray(w)[at]
                worst = (excess.max(), f"{name}{index} is {found}, finite differences give {difference}")
        if worst is not None:
            raise AssertionError(f"{what}: {worst[1]}")


def _moved(x: Any, direction: Any, by: float) -> Any:
    """``x + direction * by``, in the type of ``x``."""
    moved = x + direction * by
    python = isinstance(x, float) and not isinstance(x, np.generic)
    return float(moved) if python else np.asarray(moved, np.asarray(x).dtype)[()]
