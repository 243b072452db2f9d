"""The loop level to device code: kernels as LLVM IR, and the host program that launches them.

Files, in reading order::

    image         what is loaded on a device: the text of kernels, and their parameters
    tensor_cores  products of small matrices that a warp computes together
    driver        the interface of a device, and arrays in its memory
    device        device functions
    kernels       kernels that call them
    host          the host program
    program       programs: compiled, run, explained
    ptx           images as PTX: functions of the device, kernels, libdevice
"""
