"""GPUs: drivers, arrays in device memory, and calls of ``jit(target="cuda")`` and ``jit(target="cuda-sim")``.

The interface to a device is ``lowering.gpu.driver.Driver``; the code that runs there is made in ``lowering/gpu``.
Imported by ``api`` when a function of such a target is first called; imports the whole compiler.
Files, in reading order::

    recording   a driver for tests, which records and checks calls
"""
