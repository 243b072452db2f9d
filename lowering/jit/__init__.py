"""Code for a target: native code in this process, PTX.

The top of the lowering.

Files, in reading order::

    cpu           LLVM's ORC JIT
    image         machine code for other processes: a linker and a loader
    object_cache  machine code of shared routines, on disk
    invoke        runs one IR function on NumPy arguments, for tests
    cuda_toolkit  parts of NVIDIA's toolkit on this machine: libdevice, ptxas, nvdisasm
    nvptx         PTX
"""
