"""``make fuzz``: random programs for a given time or number; exit status 1 if a check fails."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.fuzzing import check
from tests.fuzzing.campaign import REGRESSIONS, Campaign, Job, Options, minimal, work
from tests.fuzzing.pool import Pool


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=0, help="programs, however long they take")
    parser.add_argument("--seed", type=int, default=0, help="0: from the clock")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--size", type=int, help="constructs of a program (about; default: 1 to 32)")
    parser.add_argument("--focus", action="append", default=[], help="a construct that programs are to have")
    parser.add_argument("--always", action="append", default=[], choices=sorted(check.CHECKS),
                        help="a check that all programs get, and not only some")
    parser.add_argument("--findings", type=int, default=20, help="then it stops")
    parser.add_argument("--keep", action="store_true", help="do not make findings small")
    parser.add_argument("--save", action="store_true", help=f"write findings to {REGRESSIONS.name}/")
    parser.add_argument("--table", action="store_true", help="the coverage of every construct")
    parser.add_argument("--file", type=Path, help="check this program, and make it small if it is wrong")
    options = parser.parse_args()
    return check_file(options.file, options.keep) if options.file else fuzz(options)


def fuzz(options: argparse.Namespace) -> int:
    seed = options.seed or int(time.time() * 1000) % 10 ** 9
    print(f"seed {seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)    # prints the summary if stopped early
    campaign = Campaign(Options(seed, options.seconds, options.count, options.workers, options.nice, options.keep,
                                options.findings, options.size, tuple(options.focus), tuple(options.always)),
                        lambda text: print(text, flush=True))
    findings = campaign.run()
    if options.table:
        print(campaign.coverage.table())
    print(f"seed {seed}: {campaign.progress()}")
    print(campaign.coverage.summary())
    for found, n in campaign.kinds.items():
        print(f"  {n:5}  {': '.join(x for x in found if x)}")
    for finding in findings if options.save else ():
        REGRESSIONS.mkdir(exist_ok=True)
        (REGRESSIONS / f"seed_{finding.program.seed}.py").write_text(finding.text())
    return 1 if findings else 0


def check_file(path: Path, keep: bool) -> int:
    source = path.read_text()
    with Pool(work, 1) as pool:
        ((_, answer),) = pool.run([Job(source=source, checks=check.ALL)])
    found = answer if isinstance(answer, check.Verdict) else answer[1]
    print(found)
    if found.what == "wrong" and not keep:
        print(minimal(source, found, check.ALL))
    return 1 if found.what == "wrong" else 0


if __name__ == "__main__":
    sys.exit(main())
