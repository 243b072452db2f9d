"""The classes of arrays that programs may capture.

They have a ``shape``, a ``dtype`` and an ``ndim``; one without axes is read by ``x[()]``.
"""

from __future__ import annotations

import numpy as np

ARRAYS: set[type] = {np.ndarray}
"""NumPy's class; ``jitad.gpu.arrays`` adds that of arrays on a device."""
