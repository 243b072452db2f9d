"""Two checkouts of the compiler on the same programs, in turns.

``python -m bench.two_trees BASE field[:name,name] …`` times the programs of the fields (``bench/ordinary``) with the
compiler of this checkout and with that of the folder ``BASE``, each in a process of its own; ``BASE`` may be ``none``.
A name that ends in ``.py`` is a file with ``programs()``, a list of ``Ordinary``; its C is beside it in a file of the
same name.  Both processes take turns, round by round, and the least time of each counts: other work on the machine
only adds.  A second start of the pair may differ by as much as code alignment does, so read a small ratio twice.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STRICT_C = ("C gcc", "C gcc 512", "C clang", "C clang 512")


def programs_of(word: str) -> tuple[str, list[Any]]:
    """The C source of a field or a file, and its programs, of those that are named after a colon."""
    from bench.acting import programs
    from bench.case import Bench
    name, _, chosen = word.partition(":")
    if name.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(name).stem, name)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found, source = module.programs(), str(Path(name).with_suffix("").resolve())
    else:
        found, source = programs(f"bench.ordinary.{name}", Bench(None, None, False, 1)), f"ordinary/{name}"
    return source, [p for p in found if not chosen or p.name in chosen.split(",")]


def made(options: argparse.Namespace, word: str, ours_only: bool) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Program, label and call of what is timed; ours first."""
    import numpy as np

    from bench.ordinary.program import COMPILERS, in_c, in_numba
    from bench.peers.common import c_call, compiled
    from jitad import jit
    source, programs = programs_of(word)
    fast: dict[str, Any] = {"fastmath": True} if options.fast else {}

    def c(function: str, args: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
        for label in COMPILERS if options.fast else STRICT_C:
            compiler, flags = COMPILERS[label]
            if options.fast == ("-ffast-math" in flags):
                yield "C", c_call(getattr(compiled(source, *flags, compiler=compiler), function), *args)
    for p in programs:
        forms = {"": p.function, **(p.formulations if options.forms else {})}
        for form, f in forms.items():
            name = f"{p.name} {form}".strip()
            args = p.others.get(form, p.args)
            if not options.grads:
                g = jit(f, **fast)
                yield name, "ours", partial(g, *args)
                if not form and options.c and not ours_only:
                    yield from ((name, *found) for found in c(p.name, in_c(p.args)))
                if not form and options.numba and p.numba and not ours_only:
                    yield name, "Numba", partial(in_numba(p.function), *args)
            if p.grad and not options.values:
                h = jit(f, grad=p.grad, **fast).value_and_grad
                yield f"{name} '", "ours", partial(h, *args)
                if not form and p.adjoint and options.c and not ours_only:
                    bars = [np.zeros(np.shape(p.args[k]) or 1, getattr(p.args[k], "dtype", float)) for k in p.grad]
                    found = c(f"{p.name}_gradient", [*in_c(p.args), *bars])
                    yield from ((f"{name} '", *each) for each in found)


def serve(options: argparse.Namespace) -> None:
    """Compiles when told a word, times when told a number; answers by lines of JSON."""
    sys.path.insert(0, str(options.tree))
    import jitad  # noqa: F401  of that tree; ``bench`` is of this one
    sys.path[0] = str(HERE.parent)
    from bench import measure, one_core
    one_core.settle()
    one_core.choose_clock(True)
    timed: list[tuple[Callable[[], Any], int]] = []
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, str):
            names, timed = [], []
            for name, label, call in made(options, asked, options.serve == "base"):
                timed.append((call, measure.calibrated(call, options.least)))
                names.append((name, label))
            answer: Any = names
        else:
            call, count = timed[asked]
            answer = measure.seconds(call, count) / count
        print(json.dumps(answer), flush=True)


class Worker:
    """A process with one compiler."""

    def __init__(self, tree: Path, role: str) -> None:
        self.tree = tree
        command = [sys.executable, "-m", "bench.two_trees", *sys.argv[1:], "--serve", role, "--tree", str(tree)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        cwd=HERE.parent)

    def ask(self, what: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(what), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"the compiler in {self.tree} has ended")       # it has told why
        return json.loads(answer)


def compared(options: argparse.Namespace, word: str, workers: dict[str, Worker]) -> dict[str, dict[str, float]]:
    """The least seconds of a call by program and label."""
    asked = {role: worker.ask(word) for role, worker in workers.items()}
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for role, worker in workers.items():
            for k, (name, label) in enumerate(asked[role]):
                known, key = best.setdefault(name, {}), "base" if role == "base" else label
                known[key] = min(known.get(key, 1e9), worker.ask(k))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="a folder with a checkout, or none")
    parser.add_argument("words", nargs="+", metavar="field[:names]")
    for flag in ("fast", "forms", "values", "grads", "c", "numba"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--least", type=float, default=0.01, help="seconds a round, at least")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--tree", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    from bench.ordinary import FIELDS
    if options.base != "none" and not (Path(options.base) / "jitad").is_dir():
        parser.error(f"no checkout in {options.base}")
    for name in (word.partition(":")[0] for word in options.words):
        if name not in FIELDS and not Path(name).is_file():
            parser.error(f"no field or file {name}: the fields are {', '.join(FIELDS)}")
    from bench.measure import geometric_mean, readable
    workers = {"new": Worker(HERE.parent, "new")}
    if options.base != "none":
        workers["base"] = Worker(Path(options.base).resolve(), "base")
    ratios: dict[str, list[float]] = {}
    for word in options.words:
        for name, known in compared(options, word, workers).items():
            ours, line = known["ours"], f"{name:36} {readable(known['ours']):>9}"
            for other in ("base", "C", "Numba"):
                if other in known:
                    ratios.setdefault(other, []).append(ours / known[other])
                    line += f"   {ours / known[other]:6.2f} of {other}"
            print(line, flush=True)
    for other, all_of_it in ratios.items():
        print(f"geometric mean {geometric_mean(all_of_it):.3f} of {other}, {len(all_of_it)} programs")


if __name__ == "__main__":
    main()
