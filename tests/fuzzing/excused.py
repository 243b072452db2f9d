"""Differences that are not faults.

The last bits of the arguments or of constants decide, the result is undefined, or only derivatives by differences
deviate.  A program may sum to 0 or not by rounding, take the sine of 1e18 or the square root of 0 times 0, and have a
kink exactly at the point of differentiation.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jitad import grad, interpret
from tests.fuzzing import plain
from tests.fuzzing.compare import REFUSALS, agree, has_nan, outcome, shaken
from tests.fuzzing.comparing import LONGEST, Wrong
from tests.fuzzing.constructs.literals import shaken_constants

if TYPE_CHECKING:
    from tests.fuzzing.check import Checker

BITS = 1e-13                            # last bits of a number: a few of them
UNKNOWN = "not waited for"
TRIES = 8                               # on either side
FURTHER, PLACES = 1e-3, (1, -1, 2, -2, 3, -3)       # moves that leave a kink behind, but not a wrong rule


def excused(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """True if the failed comparison ``check`` at these arguments is not a fault."""
    return (not _shows(checker, shaken(at, BITS)) or hangs_on_arguments(checker, at)
            or hangs_on_constants(checker, at, check) or _is_nan_by_definition(checker, at, check)
            or differences_alone(checker, at, check))


def _shows(checker: Checker, at: tuple[Any, ...]) -> bool:
    """True if a comparison fails for these arguments."""
    try:
        checker.telling(at, *checker.python(at))
    except Wrong:
        return True
    return False


def differences_alone(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """True if only derivatives by differences deviate.

    The value of a program that contains derivatives is compared with the interpreter, whose derivatives are symbolic.
    A slope must differ at points further away too, since all methods may agree on a slope that lost the same term.  (So
    must the result of ``fastmath``.)
    """
    if check == "value" and checker.derives:
        compiled, _ = checker.compared[check]
        meant = _meant(checker, at)
        return meant is not UNKNOWN and not _differ(compiled, meant, checker)
    if check == "fastmath" or check.endswith("against differences"):
        return sum(_shows(checker, shaken(at, k * FURTHER)) for k in PLACES) < 2
    return False


def hangs_on_arguments(checker: Checker, at: tuple[Any, ...]) -> bool:
    """True if the result of the program varies with the last bits of the arguments.

    It may compare a sum with the same sum in another order.  (``Checker.python`` has tried two variations.)
    """
    meant = _meant(checker, at)
    return any(_differ(_meant(checker, shaken(at, by)), meant, checker)
               for k in range(1, TRIES + 1) for by in (k * BITS, -k * BITS))


def _differ(x: Any, y: Any, checker: Checker) -> bool:
    """True if two values are known and differ."""
    known = x is not UNKNOWN and y is not UNKNOWN
    return known and not agree(x, y, 1e-6 if checker.derives else checker.tolerance)


def hangs_on_constants(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """True if numbers grow or cancel beyond the precision of a float because of constants alone.

    Then the result of the program, or both sides of the comparison, change if the last bits of constants are larger or
    smaller.  Or one side equals the result with changed constants: a sum of constants is rounded, and lies half-way.
    """
    meant, sides = _meant(checker, at), checker.compared.get(check, ())
    moves, both_move = True, bool(sides)
    for by in (BITS, -BITS):
        other = checker.like(shaken_constants(checker.source, by))
        with suppress(Wrong, *REFUSALS):
            other.telling(at, *other.python(at))
        nearly = _meant(other, at)
        moved = _differ(nearly, meant, checker)
        if moved and any(_has(side, nearly, checker) for side in sides):
            return True
        moves = moves and moved
        both_move = both_move and all(
            _differ(x, y, checker) for x, y in zip(other.compared.get(check, sides), sides))
    return moves or both_move


def _has(side: Any, value: Any, checker: Checker) -> bool:
    """True if one side of a comparison is this value, alone or in a pair with a gradient."""
    return not _differ(side, value, checker) or (
        isinstance(side, tuple) and len(side) == 2 and not _differ(side[0], value, checker))


def _meant(checker: Checker, at: tuple[Any, ...]) -> Any:
    """CPython's value, or the interpreter's if the program contains derivatives: differences miss the sine of 1e18."""
    if not checker.derives:
        found, _ = checker.python(at)
        return UNKNOWN if isinstance(found, type) else found
    with suppress(plain.TooLong), plain.limited(LONGEST):
        return outcome(interpret, checker.main, *copy.deepcopy(at))
    return UNKNOWN


def _is_nan_by_definition(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """True if one side is NaN, and so is the gradient by definition: an intermediate 0 * inf may be omitted."""
    if not checker.scalar or not any(map(has_nan, checker.compared.get(check, ()))):
        return False
    with suppress(plain.TooLong, *REFUSALS), plain.limited(LONGEST):
        return has_nan(outcome(interpret, grad(checker.main, checker.floats), *copy.deepcopy(at)))
    return False
