"""``python -m jitad``: inspects, runs, verifies or builds a jitted function, or a file of IR; shows the
disk cache.

::

    python -m jitad inspect pkg.mod:f --signature "f64[:], f64" --stage cps
    python -m jitad run --grad 0 pkg.mod:f 1.0 "[1.0, 2.0]"
    python -m jitad verify pkg.mod:f --signature "f64[:], f64"
    python -m jitad opt --passes=cps,licm f.ir
    python -m jitad run f.ir "[1.0, 2.0]" 3.0
    python -m jitad build pkg.mod:f --signature "f64[:], f64" --grad 0 -o libf.so --header f.h
    python -m jitad cache info
"""

from __future__ import annotations

import sys

from .command_line.main import main

if __name__ == "__main__":
    sys.exit(main())
