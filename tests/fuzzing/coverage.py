"""Counts of generated programs and their outcomes by construct; chooses constructs for the next run."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable

from tests.fuzzing.check import Verdict
from tests.fuzzing.generate import CONSTRUCTS

ENOUGH = 300                    # number of programs with a construct after which it is not focused on any more


class Coverage:
    """Counts of constructs, of pairs (a construct directly inside another), of refusals and comparisons."""

    def __init__(self, features: Iterable[str]) -> None:
        known = {"", *features}
        everything = [c for cs in CONSTRUCTS.values() for c in cs]
        self.names = [c.name for c in everything if c.needs in known]
        self.off = sorted({c.needs for c in everything if c.needs not in known})
        self.generated, self.compiled, self.refused = Counter[str](), Counter[str](), Counter[str]()
        self.pairs = Counter[tuple[str, str]]()
        self.verdicts, self.refusals = Counter[str](), Counter[str]()
        self.checked, self.comparisons = Counter[str](), Counter[str]()         # programs, and inputs of them
        self.refused_in: dict[str, Counter[str]] = {}

    def add(self, constructs: set[str], pairs: set[tuple[str, str]], verdict: Verdict) -> None:
        self.verdicts[verdict.what] += 1
        self.generated.update(constructs)
        self.pairs.update(pairs)
        self.comparisons.update(verdict.counts)
        self.checked.update(verdict.counts.keys())
        if verdict.what == "refused":
            message = general(verdict.detail)
            self.refused.update(constructs)
            self.refusals[message] += 1
            self.refused_in.setdefault(message, Counter()).update(constructs)
        elif verdict.what in ("ok", "idle"):
            self.compiled.update(constructs)

    def focus(self, r: random.Random) -> tuple[str, ...]:
        """Constructs for the next program: half of the time the rarest of a few, unless they have run enough."""
        if r.random() < 0.5:
            return ()
        few = [n for n in r.sample(self.names, 12) if self.compiled[n] < ENOUGH]
        return tuple(sorted(few, key=lambda n: self.compiled[n])[:r.choice((1, 2))])

    # --- the summary ----------------------------------------------------------------------------------

    def table(self) -> str:
        """A table of the constructs, rarest first, with the numbers generated, compiled and refused."""
        rows = sorted(self.names, key=lambda n: self.generated[n])
        cells = [f"{n[:34]:34} {self.generated[n]:6} {self.compiled[n]:6} {self.refused[n]:5}" for n in rows]
        half = (len(cells) + 1) // 2
        head = f"{'construct':34} {'made':>6} {'ran':>6} {'ref.':>5}"
        lines = [f"{head}   {head}"]
        lines += [f"{left}   {right}" for left, right in zip(cells, [*cells[half:], ""], strict=False)]
        return "\n".join(lines)

    def summary(self) -> str:
        total = sum(self.verdicts.values())
        never = [n for n in self.names if not self.compiled[n]]
        lines = [", ".join(f"{k} {v}" for k, v in self.verdicts.most_common()),
                 f"constructs: {len(self.names) - len(never)} of {len(self.names)} ran, in {len(self.pairs)} pairs of "
                 f"one right inside another"]
        if never:
            lines.append(f"never ran: {', '.join(never)}")
        if self.off:
            lines.append(f"not in this compiler: {', '.join(self.off)}")
        for message, n in self.refusals.most_common(25):
            lines.append(f"  refused {n:5} ({100 * n / total:.1f}%): {message}  [{self.blamed(message)}]")
        lines.append(f"checks: {'programs':>8} {'comparisons':>11}")
        lines += [f"{n:16} {self.comparisons[check]:11} {check}" for check, n in self.checked.most_common()]
        return "\n".join(lines)

    def blamed(self, message: str) -> str:
        """The constructs that occur only in programs refused with this message."""
        n, total = self.refusals[message], sum(self.verdicts.values())
        def excess(name: str) -> float:
            return self.refused_in[message][name] / n - self.generated[name] / total
        return ", ".join(sorted(self.refused_in[message], key=excess, reverse=True)[:2])


def general(message: str) -> str:
    """A message without the names and numbers of one program."""
    return re.sub(r"[-+]?\b\d[\d.e+-]*|`[^`]*`|'[^']*'", "…", message.split("\n")[0])[:110]
