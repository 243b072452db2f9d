"""``jit(cache=True)``: compiled functions on disk, for later processes.

An entry holds machine code, entry points, guards and the rest of a ``Compiled``.  It is found by what the process knows
before it looks: the function, the types of the arguments, the options, the processor and the versions.  What else the
program depends on (globals, callees in other files, classes) is listed in the entry, since the compiler knows all that
it has read: the guards on captured state.  A process that loads an entry looks these things up again, compares what
they are made of with the entry, and tests the guards.  If anything differs, the function is compiled again.

Loading imports neither the front end nor LLVM.

Files, in reading order::

    digests      what functions and classes are made of, as digests
    references   names for functions, classes and modules, by which another process finds its own
    resolution   finds them
    keys         the key of an entry
    libraries    addresses of functions and memory outside of machine code
    format       compiled code as bytes, and back
    cache        looks entries up in ``disk_store``, and writes them

Imports ``calling.compiled`` and below; ``calling.dispatch`` imports it.
"""
