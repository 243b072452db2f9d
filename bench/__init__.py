"""Benchmarks: ``python -m bench`` runs all, ``python -m bench NAME`` one; see ``docs/benchmarks.md``.

All programs of a case are checked to give the same result before they are timed.  They run on one core, and are
measured in rounds in which they alternate; medians are reported.
"""

import sys

from bench import one_core

# ``python -m bench``.  An import pins nothing: the workers of pytest-xdist are ``python -c``.
if sys.argv[0] == "-m":
    one_core.settle()
