"""Shapes and strides of arrays, and the memory that they reach."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ShapeError


def contiguous_strides(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides in C order of elements of ``size`` bytes."""
    strides = []
    for n in reversed(shape):
        strides.append(size)
        size *= n
    return tuple(reversed(strides))


def broadcast_strides(given: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array of shape ``given`` as one of ``shape``."""
    missing = len(shape) - len(given)
    if missing < 0 or any(n not in (1, m) for n, m in zip(given, shape[missing:])):
        raise ShapeError(f"an array of shape {given} does not broadcast to {shape}")
    return (0,) * missing + tuple(0 if n == 1 and m != 1 else s for n, m, s in zip(given, shape[missing:], strides))


def extent(address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[int, int]:
    """The addresses of the first byte of an array with elements of ``size`` bytes, and behind the last one."""
    reach = [s * (n - 1) for n, s in zip(shape, strides)]
    return address + sum(min(r, 0) for r in reach), address + sum(max(r, 0) for r in reach) + size
