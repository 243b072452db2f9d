"""The programs that an export adds to its function: derivatives whose arguments and results C code can pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..frontend.transforms import transforms

Program = Callable[..., Any]


def gradient(f: Program, argnums: Any) -> Program:
    """(args…) → (value, gradient)."""
    found: Program = transforms.value_and_grad(f, argnums)
    return found


def pushforward(f: Program, positions: Sequence[int], count: int) -> Program:
    """(args…, tangents of those at ``positions``…) → (value, tangent of the value)."""
    chosen = tuple(positions)

    def jvp(*given: Any) -> Any:
        args, tangents = given[:count], given[count:]

        def at(*moving: Any) -> Any:
            return f(*[moving[chosen.index(i)] if i in chosen else args[i] for i in range(count)])
        return transforms.jvp(at, tuple([args[i] for i in chosen]), tangents)
    return jvp


def pullback(f: Program, positions: Sequence[int], count: int) -> Program:
    """(args…, cotangent of the value) → (value, cotangents of the arguments at ``positions``…)."""
    chosen = tuple(positions)

    def vjp(*given: Any) -> Any:
        args = given[:count]

        def at(*moving: Any) -> Any:
            return f(*[moving[chosen.index(i)] if i in chosen else args[i] for i in range(count)])
        out, pull = transforms.vjp(at, *[args[i] for i in chosen])
        return out, pull(given[count])
    return vjp


def hessian_product(f: Program, positions: Sequence[int], count: int) -> Program:
    """(args…, tangents of those at ``positions``…) → the Hessian times the tangents, one for each position."""
    chosen = tuple(positions)

    def hvp(*given: Any) -> Any:
        args, tangents = given[:count], given[count:]

        def at(*moving: Any) -> Any:
            return f(*[moving[chosen.index(i)] if i in chosen else args[i] for i in range(count)])
        return transforms.hvp(at, tuple([args[i] for i in chosen]), tangents)
    return hvp


def jacobian(f: Program, argnums: Any) -> Program:
    """(args…) → the derivatives of each element of the result, by reverse mode."""
    found: Program = transforms.jacrev(f, argnums)
    return found
