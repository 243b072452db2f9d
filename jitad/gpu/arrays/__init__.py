"""Arrays in the memory of a device, and arrays of other libraries that are there.

Imports the drivers; imported by the rest of ``gpu``.  Files, in reading order::

    layout   shapes and strides
    strided  copies between arrays of any strides
    dlpack   arrays exchanged with other libraries: the C structures
    foreign  arrays of other libraries
    array    ``DeviceArray``, and what makes one
"""

from __future__ import annotations

from .array import DeviceArray, as_device, asarray, empty, kind_of, result
from .foreign import is_foreign

__all__ = ["DeviceArray", "as_device", "asarray", "empty", "is_foreign", "kind_of", "result"]
