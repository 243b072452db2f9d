"""Benchmarks on a device: ``python -m bench.device``, or ``make bench-gpu``.

Programs of jitad, JAX and PyTorch on the same device and data; those that are not installed are left out.  Results are
compared before anything is timed.  Files, in reading order::

    timing    times of queued work
    programs  jitad's programs
    peers     the same with JAX and PyTorch
    cases     what is measured, and against what
"""
