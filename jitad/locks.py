"""The locks of compilation, in the order in which threads take them.

A process forks only while no thread holds one, since the child has no thread that would release it.  Handlers of a
fork run in the reverse order of their registration, so the lock that is taken first is registered last.  They stand in
one module because modules are imported in any order.
"""

from __future__ import annotations

import os
import threading

compilation = threading.RLock()         # one compilation at a time; a trace may call another jitted function
machine_code = threading.RLock()        # use of LLVM, within a compilation or at the release of code
handles = threading.RLock()             # reentrant: a signal handler may call another function meanwhile

for _lock in (handles, machine_code, compilation):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
