"""The invariants of a module, of its derivatives and rules; and ``verify``, which checks all of them."""

from __future__ import annotations

from collections.abc import Container, Iterator

from ...errors import Loc
from ..aliasing.may_alias import Summaries
from ..graph import Module, Rule
from ..signature import signature
from ..text.printer import print_function
from ..types import carries_adjoint
from .function import FunctionVerifier
from .linearity import faults
from .violations import VerifyError, Violation


def verify(module: Module, linear: bool = True, only: Container[str] | None = None) -> None:
    """Raise ``VerifyError`` unless every invariant holds; with ``linear`` those of memory too.

    ``only``: the functions to verify, if all others are known to be well-formed.
    """
    violations = list(_module(module))
    if violations:
        raise VerifyError(violations)
    sound: list[FunctionVerifier] = []
    for func in module.functions.values():
        if only is not None and func.name not in only:
            continue
        checker = FunctionVerifier(module, func)
        if checker.run():
            sound.append(checker)
        violations += checker.violations
    if linear and not violations:
        summaries = Summaries(module)
        for checker in sound:
            for message, op, value in faults(checker.func, module, summaries):
                checker.fail(message, op, value)
            violations += checker.violations
    if violations:
        broken = module.functions.get(violations[0].function)
        raise VerifyError(violations, print_function(broken) if broken else "")


def _module(module: Module) -> Iterator[Violation]:
    def violation(name: str, message: str) -> Violation:
        return Violation(message, name, "", module.functions[name].loc if name in module.functions else Loc())

    for name, func in module.functions.items():
        if name != func.name:
            yield violation(name, f"is a function that calls itself @{func.name}")
        if not func.blocks:
            yield violation(name, "has no blocks")
            return
    for name, derived in module.derived.items():
        if name in module.functions:
            continue
        if derived.kind not in ("vjp", "jvp", "fwd", "bwd", "keep"):
            yield violation(name, f"no kind of derivative: {derived.kind!r}")
            continue
        base = signature(module, derived.base)
        if base is None:
            yield violation(name, f"derived from @{derived.base}, which does not exist")
        elif list(derived.wrt) != sorted(set(derived.wrt)) or not all(
                0 <= i < len(base.params) and carries_adjoint(base.params[i]) for i in derived.wrt):
            yield violation(name, f"{derived.wrt} are not float parameters of @{derived.base}, in order")
    for name, rule in module.rules.items():
        yield from (violation(name, message) for message in _rule(module, name, rule))


def _rule(module: Module, name: str, rule: Rule) -> Iterator[str]:
    """Messages about the differences between a function and its rule (``graph.Rule``)."""
    known = [signature(module, f) for f in (name, *rule.functions)]
    if any(s is None for s in known):
        yield f"its rule names a function that does not exist: {', '.join(rule.functions)}"
        return
    base, *found = [s for s in known if s is not None]
    if list(rule.wrt) != sorted(set(rule.wrt)) or not all(
            0 <= i < len(base.params) and carries_adjoint(base.params[i]) for i in rule.wrt):
        yield f"{rule.wrt} in its rule are not float parameters, in order"
        return
    wrt, seeds = tuple(base.params[i] for i in rule.wrt), tuple(t for t in base.results if carries_adjoint(t))
    have = [(s.params, s.results) for s in found]
    tangents = (base.params + wrt, base.results + seeds)
    if rule.kind == "vjp" and len(have) in (2, 3):
        residuals = have[0][1][len(base.results):]
        want = [(base.params, base.results + residuals), (base.params + residuals + seeds, wrt), tangents][:len(have)]
    elif rule.kind == "jvp":
        want = [tangents]
    elif rule.kind == "checkpoint":
        want = [(base.params, base.results)]
    else:
        yield f"no such rule: {rule.kind!r} of {len(have)} functions"
        return
    if have != want:
        yield f"its rule's functions have other types than a rule of kind {rule.kind!r} has"
