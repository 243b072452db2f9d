"""The host's part of a program: what it does itself, what it launches.

Files, in reading order::

    partition         decides where each part of a program runs
    nests             bodies of loops as functions
    fuse_rows         nests that go through the same rows become one
    plan              the printed plan
    residence         decides which scalars stay on the device
    device_array      buffers, views of them
    scalars           numbers on the host
    runtime           the status, scalars that kernels compute, the arena
    launches          launches of kernels
    wide_launch       of nests whose threads can access 16 bytes at once
    scan_launch       of scans
    overwrite_launch  of stores of which the last one counts
    product_launch    of products of matrices
    launch_builder    writes the kernels of each launch
    host_ops          the Python source of its ops
    host_code         the Python source of the host program
"""
