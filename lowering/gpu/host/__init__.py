"""The host's part of a program: what it does itself, what it launches.

Files, in reading order::

    partition       decides where each part of a program runs
    nests           bodies of loops as functions
    fuse_rows       nests that go through the same rows become one
    plan            the printed plan
    runtime         arrays of the device, the status, scalars
    launches        how kernels are launched
    wide_launch     how a nest is whose threads can access 16 bytes
    scan_launch     how the kernels of a scan are
    product_launch  how a product of matrices is
    launch_builder  writes the kernels of each launch
    host_code       the Python source of the host program
"""
