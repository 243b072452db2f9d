"""When what does not agree is no fault: last bits decide, of the arguments or of constants, nothing is defined, or
differences are alone against everything else.

A program may sum to 0 or not by rounding, take the sine of 1e18, or the square root of 0 times 0; and have a kink at
the very place where it is differentiated.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jitad import grad, interpret

from . import plain
from .compare import REFUSALS, agree, has_nan, outcome, shaken
from .comparing import LONGEST, Wrong
from .literals import shaken_constants

if TYPE_CHECKING:
    from .check import Checker

BITS = 1e-13                            # last bits, of a number; a few of them
UNKNOWN = "not waited for"
TRIES = 8                               # on either side
FURTHER, PLACES = 1e-3, (1, -1, 2, -2, 3, -3)       # moves that leave a kink behind, not a wrong rule


def excused(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """Whether the comparison named ``check``, which went wrong at these arguments, says nothing."""
    return (not _shows(checker, shaken(at, BITS)) or hangs_on_arguments(checker, at)
            or hangs_on_constants(checker, at, check) or _is_nan_by_definition(checker, at, check)
            or differences_alone(checker, at, check))


def _shows(checker: Checker, at: tuple[Any, ...]) -> bool:
    """Whether something is wrong with these arguments."""
    try:
        checker.telling(at, *checker.python(at))
    except Wrong:
        return True
    return False


def differences_alone(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """Whether only derivatives by differences say that something is wrong.  Of a value that they are part of the
    interpreter is asked, whose derivatives are symbolic; a slope, on which all may agree that lost the same term, has
    to be another one a little further away too.  (So has what ``fastmath`` makes of a program.)
    """
    if check == "value" and checker.derives:
        compiled, _ = checker.compared[check]
        meant = _meant(checker, at)
        return meant is not UNKNOWN and not _differ(compiled, meant, checker)
    if check == "fastmath" or check.endswith("against differences"):
        return sum(_shows(checker, shaken(at, k * FURTHER)) for k in PLACES) < 2
    return False


def hangs_on_arguments(checker: Checker, at: tuple[Any, ...]) -> bool:
    """Whether what the program means is now this and now that with other last bits of the arguments: it may compare a
    sum with itself in another order.  (``Checker.python`` has tried two of them.)
    """
    meant = _meant(checker, at)
    return any(_differ(_meant(checker, shaken(at, by)), meant, checker)
               for k in range(1, TRIES + 1) for by in (k * BITS, -k * BITS))


def _differ(x: Any, y: Any, checker: Checker) -> bool:
    """Whether two values are not the same; of what was not waited for nothing is known."""
    known = x is not UNKNOWN and y is not UNKNOWN
    return known and not agree(x, y, 1e-6 if checker.derives else checker.tolerance)


def hangs_on_constants(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """Whether numbers grow or cancel beyond what a float holds without the arguments: what the program means, or both
    sides of the comparison, are other values where constants have other last bits, larger or smaller ones; or one side
    is what the program means with larger ones, say: a sum of constants is rounded, and lies half-way.
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
    """Whether one side of a comparison is that value, by itself or with a gradient."""
    return not _differ(side, value, checker) or (
        isinstance(side, tuple) and len(side) == 2 and not _differ(side[0], value, checker))


def _meant(checker: Checker, at: tuple[Any, ...]) -> Any:
    """CPython's value, of a program with derivatives the interpreter's: differences see no sine of 1e18."""
    if not checker.derives:
        found, _ = checker.python(at)
        return UNKNOWN if isinstance(found, type) else found
    with suppress(plain.TooLong), plain.limited(LONGEST):
        return outcome(interpret, checker.main, *copy.deepcopy(at))
    return UNKNOWN


def _is_nan_by_definition(checker: Checker, at: tuple[Any, ...], check: str) -> bool:
    """Whether one side is NaN, and so is the gradient as defined: 0 * inf on the way need not be computed."""
    if not checker.scalar or not any(map(has_nan, checker.compared.get(check, ()))):
        return False
    with suppress(plain.TooLong, *REFUSALS), plain.limited(LONGEST):
        return has_nan(outcome(interpret, grad(checker.main, checker.floats), *copy.deepcopy(at)))
    return False
