"""Benchmarks: ``python -m bench`` runs all, ``python -m bench NAME`` one; ``docs/benchmarks.md`` says how.

Every program is checked to give the same result before it is timed, runs on one core, and is measured in
rounds in which the programs take turns; medians are reported.
"""

import sys

from . import one_core

if sys.argv[0] in ("-m", "-c"):                     # run as a program, and not imported by a test
    one_core.settle()
