"""Random numbers with explicit state, with the same stream wherever they are drawn.

``Generator`` is a seed and a counter: a dataclass of two ints, which can be passed into and out of compiled code.
Number ``k`` of a stream is a function of the seed and ``k`` alone,

    number(k) = f(Philox(key = seed, counter = k)),

so the grouping of draws does not matter (``rng.random(4)`` is four times ``rng.random()``), loops over them vectorise,
and CPU, GPU, interpreter and plain Python agree: bit for bit for integers and uniform numbers, up to the rounding of
``log`` and ``cos`` for the others.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
the generator Philox 4×32 with 10 rounds.  It passes the BigCrush tests, and streams of different seeds are independent.

Everything here is ordinary Python.  Functions that fill arrays are jitted, so they are fast outside compiled code too.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from .api import jit
from .frontend.operations.builtin import unroll
from .frontend.values.other_libraries import unknown_name

__all__ = ["Generator", "default_rng", "philox"]


def __getattr__(name: str) -> Any:
    raise unknown_name(__name__, name)

WORD = 0xFFFFFFFF
Words = tuple[Any, Any, Any, Any]


# --- one block of random bits -----------------------------------------------------------------------

def philox(counter: Words, key: tuple[Any, Any]) -> Words:
    """Philox 4×32-10: four random words of 32 bits for a counter of four words and a key of two.

    Words are non-negative ints, or int64 arrays of one shape.  A product of two words may exceed 2⁶³ and wrap; its
    halves are correct in either case.
    """
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in unroll(range(10)):
        p, q = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = (q >> 32) & WORD ^ x1 ^ k0, q & WORD, (p >> 32) & WORD ^ x3 ^ k1, p & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return x0, x1, x2, x3


def _block(seed: Any, k: Any, purpose: int = 0) -> Words:
    """Block ``k`` of a stream; ``purpose`` separates the numbers from the seeds of derived streams."""
    return philox((k & WORD, (k >> 32) & WORD, purpose, 0), (seed & WORD, (seed >> 32) & WORD))


def _unit(high: Any, low: Any) -> Any:
    """A float in [0, 1) with 53 random bits."""
    return ((high << 21) | (low >> 11)) * 2.0 ** -53


def _below(high: Any, low: Any, bound: Any) -> Any:
    """An int in [0, bound): bits · bound / 2⁶⁴, rounded down; the relative bias is at most bound / 2⁶⁴."""
    b1, b0 = (bound >> 32) & WORD, bound & WORD
    u = high * b0 + ((low * b0 >> 32) & WORD)
    v = low * b1 + (u & WORD)
    return high * b1 + ((u >> 32) & WORD) + ((v >> 32) & WORD)


def _new_seed(words: Words) -> Any:
    """A seed of 63 bits, which fits in an int64."""
    return ((words[0] & 0x7FFFFFFF) << 32) | words[1]


# --- one number -------------------------------------------------------------------------------------

def _uniform(seed: Any, k: Any) -> Any:
    a, b, _, _ = _block(seed, k)
    return _unit(a, b)


def _normal(seed: Any, k: Any) -> Any:
    """The Box–Muller transform (1958) of two uniform numbers; uses only the cosine, so one block gives one number."""
    a, b, c, d = _block(seed, k)
    return np.sqrt(-2.0 * np.log1p(-_unit(a, b))) * np.cos(2.0 * np.pi * _unit(c, d))


def _exponential(seed: Any, k: Any) -> Any:
    return -np.log1p(-_uniform(seed, k))


def _integer(seed: Any, k: Any, bound: Any) -> Any:
    a, b, _, _ = _block(seed, k)
    return _below(a, b, bound)


# --- n numbers --------------------------------------------------------------------------------------

@jit
def _uniforms(seed: int, k: int, n: int) -> np.ndarray:
    out = np.empty(n)
    for i in range(n):
        out[i] = _uniform(seed, k + i)
    return out


@jit
def _normals(seed: int, k: int, n: int) -> np.ndarray:
    out = np.empty(n)
    for i in range(n):
        out[i] = _normal(seed, k + i)
    return out


@jit
def _exponentials(seed: int, k: int, n: int) -> np.ndarray:
    out = np.empty(n)
    for i in range(n):
        out[i] = _exponential(seed, k + i)
    return out


@jit
def _integers(seed: int, k: int, n: int, low: int, bound: int) -> np.ndarray:
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = low + _integer(seed, k + i, bound)
    return out


@jit
def _permutation(seed: int, k: int, n: int) -> np.ndarray:
    """The Fisher–Yates shuffle, in Durstenfeld's version (1964)."""
    out = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = _integer(seed, k + i, i + 1)
        out[i], out[j] = out[j], out[i]
    return out


@jit
def _positions(levels: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """For each uniform number, the first index whose level exceeds it, by bisection."""
    out = np.empty(len(uniforms), np.int64)
    for i in range(len(uniforms)):
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if levels[middle] > uniforms[i]:
                high = middle
            else:
                low = middle + 1
        out[i] = low
    return out


# --- the generator ----------------------------------------------------------------------------------

@dataclass
class Generator:
    """A stream of random numbers: a seed (an int of 64 bits), and the number of numbers drawn so far.

    The methods are those of ``numpy.random.Generator``; each advances the counter.  ``size`` is ``None`` (one number,
    or the shape that array parameters broadcast to), an int or a tuple; sizes may be run-time values.  Floats are
    float64 and ints int64.  Parameters may be differentiated: ``rng.normal(mu, sigma)`` is ``mu + sigma * z``.

    A generator that is passed to compiled code is read-only, like every argument.  Draw from ``rng.copy()``, and return
    that copy if the caller is to continue from there.
    """

    seed: int
    counter: int = 0

    # --- streams ------------------------------------------------------------------------------------

    def copy(self) -> Generator:
        """A new generator in the same state."""
        return Generator(self.seed, self.counter)

    def spawn(self, n_children: int) -> list[Generator]:
        """New generators with seeds drawn from this one; their number must be known while compiling."""
        return [Generator(_new_seed(_block(self.seed, self._advance(1)))) for _ in unroll(range(n_children))]

    def fold_in(self, i: int) -> Generator:
        """Stream number ``i`` of this seed, for element ``i`` of a loop or of ``vmap``.

        The counter does not change, and the streams are independent of this one.
        """
        return Generator(_new_seed(_block(self.seed, i, purpose=1)))

    def _advance(self, n: int) -> int:
        """Advances the counter by ``n``; returns its previous value."""
        before = self.counter
        self.counter += n
        return before

    # --- distributions ------------------------------------------------------------------------------

    def random(self, size: Any = None) -> Any:
        """Uniform in [0, 1)."""
        if size is None:
            return _uniform(self.seed, self._advance(1))
        n = _count(size)
        return _uniforms(self.seed, self._advance(n), n).reshape(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform in [low, high)."""
        return low + (high - low) * self.random(_size(size, low, high))

    def standard_normal(self, size: Any = None) -> Any:
        """Normal with mean 0 and variance 1."""
        if size is None:
            return float(_normal(self.seed, self._advance(1)))
        n = _count(size)
        return _normals(self.seed, self._advance(n), n).reshape(size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        return loc + scale * self.standard_normal(_size(size, loc, scale))

    def standard_exponential(self, size: Any = None) -> Any:
        """Exponential with mean 1."""
        if size is None:
            return float(_exponential(self.seed, self._advance(1)))
        n = _count(size)
        return _exponentials(self.seed, self._advance(n), n).reshape(size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential with mean ``scale``."""
        return scale * self.standard_exponential(_size(size, scale))

    def integers(self, low: int, high: int | None = None, size: Any = None, *, endpoint: bool = False) -> Any:
        """Ints in [low, high), or in [0, low) without ``high``; ``endpoint`` includes the upper end.

        Raises ``ValueError`` if the interval is empty.
        """
        if high is None:
            low, high = 0, low
        bound = high - low + 1 if endpoint else high - low
        if bound <= 0:
            raise ValueError("low >= high")
        if size is None:
            return low + _integer(self.seed, self._advance(1), bound)
        n = _count(size)
        return _integers(self.seed, self._advance(n), n, low, bound).reshape(size)

    # --- orders and choices -------------------------------------------------------------------------

    def permutation(self, x: Any) -> Any:
        """The ints below ``x`` in a random order, or a copy of an array in a random order along its first axis."""
        if np.ndim(x) > 0:
            return x[self.permutation(len(x))]
        return _permutation(self.seed, self._advance(x), x)

    def shuffle(self, x: np.ndarray) -> None:
        """Shuffles an array along its first axis, in place."""
        x[:] = x[self.permutation(len(x))]

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Random elements of an array, or random ints below ``a``.

        They are equally likely, or have the probabilities ``p`` (an array that need not sum to 1).  With
        ``replace=False`` no element is drawn twice; it cannot be combined with ``p``.

        Raises ``ValueError`` if more elements are drawn than there are, or for both options.
        """
        n = len(a) if np.ndim(a) > 0 else a
        if not replace:
            picked = self._without_replacement(n, size, p)
        elif p is None:
            picked = self.integers(n, size=size)
        else:
            levels = np.cumsum(p)
            found = _positions(levels, self.random(1 if size is None else _count(size)) * levels[-1])
            picked = found[0] if size is None else found.reshape(size)
        return a[picked] if np.ndim(a) > 0 else picked

    def _without_replacement(self, n: int, size: Any, p: Any) -> Any:
        if p is not None:
            raise ValueError("choice takes either p or replace=False")
        count = 1 if size is None else _count(size)
        if count > n:
            raise ValueError("choice of more elements than there are, without replacement")
        picked = self.permutation(n)[:count]
        return picked[0] if size is None else picked.reshape(size)


def default_rng(seed: int | None = None) -> Generator:
    """A generator with this seed; without one, outside compiled code, with a seed from the system."""
    return Generator(secrets.randbits(63) if seed is None else seed)


def _count(size: Any) -> Any:
    return math.prod(size) if isinstance(size, (tuple, list)) else size


def _size(size: Any, *parameters: Any) -> Any:
    """The requested size, or the shape that array parameters broadcast to (None for scalars)."""
    if size is not None:
        return size
    total: Any = sum(parameters)
    return np.shape(total) if np.ndim(total) > 0 else None
