"""GPUs: drivers, arrays in device memory, and calls of ``jit(target="cuda")`` and ``jit(target="cuda-sim")``.

The interface to a device is ``lowering.gpu.driver.Driver``; the code that runs there is made in ``lowering/gpu``.
Imported by ``api`` when a function of such a target is first called; imports the whole compiler.
Files, in reading order::

    bindings    NVIDIA's driver through cuda-python: loading it, its errors
    launching   arguments of kernels as the driver reads them
    cuda        the driver of NVIDIA's GPUs
    capture     CUDA graphs
    recording   a driver for tests, which records and checks calls
    simulated   the driver of the simulator (``lowering/simulator``)
    assembling  the device's own instructions, by ptxas and nvdisasm
"""
